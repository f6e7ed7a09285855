// What hubs and command lines say, as text: redirects, listings of modules and shards, names. Each
// is taken or refused; what is taken leads neither out of a folder nor out of a request line.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "hub/gguf_choice.h"
#include "hub/hub_error.h"
#include "hub/model_reference.h"
#include "hub/needed_files.h"
#include "hub/retries.h"
#include "hub/url.h"

namespace {

using namespace espalier::hub;

void require(bool holds) {
  if (!holds) std::abort();
}

template <typename Try>
void taken_or_refused(const Try& attempt) {
  try {
    attempt();
  } catch (const HubError&) {
  }
}

bool stays_inside(const std::string& path) {
  return !path.starts_with('/') && ("/" + path + "/").find("/../") == std::string::npos;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  taken_or_refused([&] {
    const Url base = parse_url("https://hub.example/a/b/c?d");
    const Url url = resolve_redirect(base, text);
    require(url.https && !url.host.empty() && url.target.starts_with('/'));
    require(std::ranges::none_of(
        url.text(), [](char c) { return static_cast<unsigned char>(c) <= 0x20 || c == 0x7f; }));
    require(parse_url(url.text()).text() == url.text());
  });
  taken_or_refused([&] {
    const ModelReference model = parse_reference(text);
    require(stays_inside(model.repository) && stays_inside(model.revision));
    require(model.gguf.empty() || stays_inside(model.gguf));
    require(looks_like_reference(text));
    require(parse_reference(model.text()).text() == model.text());
  });
  taken_or_refused([&] {
    for (const Module& module : parse_modules(text, "modules.json"))
      require(module.folder.empty() || stays_inside(module.folder));
  });
  taken_or_refused([&] {
    for (const auto& shard : parse_shards(text, "index")) require(stays_inside(shard));
  });
  taken_or_refused([&] { choose_gguf({text, "a-Q8_0.gguf", "b-f16.gguf"}, text, "org/name"); });
  retry_after(text, std::chrono::system_clock::time_point());
  return 0;
}
