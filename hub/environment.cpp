#include "hub/environment.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <utility>

#include "hub/hub_error.h"

namespace espalier::hub {
namespace {

namespace fs = std::filesystem;

constexpr size_t kTokenBytesMax = 4096;

/// The value of the first of `names` that is set and not empty, or "".
template <typename... Names>
std::string first_set(const Lookup& lookup, Names... names) {
  for (const char* name : {names...}) {
    const char* value = lookup(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return "";
}

bool is_true(std::string value) {
  std::ranges::transform(value, value.begin(), [](unsigned char c) { return std::toupper(c); });
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

std::string stripped(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1));
}

/// "~" at the beginning is the home folder, as in Hugging Face's tools.
fs::path expanded(const std::string& path, const std::string& home) {
  if (path != "~" && !path.starts_with("~/")) return path;
  if (home.empty()) throw HubError("HOME is not set: '" + path + "' names no folder");
  return fs::path(home) / path.substr(std::min<size_t>(2, path.size()));
}

/// HF_HOME; "" if nothing says where it is.
fs::path home_of_tools(const Lookup& lookup, const std::string& home) {
  if (const auto path = first_set(lookup, "HF_HOME"); !path.empty()) return expanded(path, home);
  if (const auto path = first_set(lookup, "XDG_CACHE_HOME"); !path.empty())
    return expanded(path, home) / "huggingface";
  return home.empty() ? fs::path() : fs::path(home) / ".cache" / "huggingface";
}

std::string token_in(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text(kTokenBytesMax, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  return stripped(text);
}

std::string find_token(const Lookup& lookup, const fs::path& tools, const std::string& home) {
  std::string token = stripped(first_set(lookup, "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"));
  std::string source = "HF_TOKEN";
  if (token.empty()) {
    const auto path = first_set(lookup, "HF_TOKEN_PATH");
    const fs::path file = !path.empty()   ? expanded(path, home)
                          : tools.empty() ? fs::path()
                                          : tools / "token";
    token = file.empty() ? "" : token_in(file);
    source = file.string();
  }
  const bool printable = std::ranges::all_of(token, [](char c) { return c > 0x20 && c < 0x7f; });
  if (!printable)
    throw HubError(source + " holds no token: there are other characters in it than ASCII's");
  return token;
}

/// "example.com", ".example.com", "*" or "example.com:8080" names `url`'s host.
bool names_host(std::string entry, const Url& url) {
  std::ranges::transform(entry, entry.begin(), [](unsigned char c) { return std::tolower(c); });
  if (entry == "*") return true;
  const size_t colon = entry.rfind(':');
  if (colon != std::string::npos && entry.find(':') == colon) {
    if (entry.substr(colon + 1) != std::to_string(url.port)) return false;
    entry.resize(colon);
  }
  if (entry.starts_with("*.")) entry.erase(0, 1);
  const std::string bare = entry.starts_with('.') ? entry.substr(1) : entry;
  return !bare.empty() && (url.host == bare || url.host.ends_with("." + bare));
}

bool goes_direct(const Url& url, const std::string& no_proxy) {
  for (size_t begin = 0; begin <= no_proxy.size();) {
    const size_t end = std::min(no_proxy.find(',', begin), no_proxy.size());
    if (names_host(stripped(std::string_view(no_proxy).substr(begin, end - begin)), url))
      return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

Environment read_environment(Lookup lookup) {
  Environment environment;
  const std::string home = first_set(lookup, "HOME");
  const fs::path tools = home_of_tools(lookup, home);

  std::string endpoint = first_set(lookup, "HF_ENDPOINT");
  if (endpoint.empty()) endpoint = "https://huggingface.co";
  while (endpoint.ends_with('/')) endpoint.pop_back();
  try {
    environment.endpoint = parse_url(endpoint);
  } catch (const HubError& error) {
    throw HubError(std::string("HF_ENDPOINT: ") + error.what());
  }
  if (environment.endpoint.target.find('?') != std::string::npos)
    throw HubError("HF_ENDPOINT: '" + endpoint + "' has a query; a hub's address has none");

  const std::string cache = first_set(lookup, "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE");
  if (cache.empty() && tools.empty()) {
    throw HubError(
        "there is no folder for fetched models: HOME is not set; set HF_HUB_CACHE or HF_HOME");
  }
  environment.cache = fs::absolute(cache.empty() ? tools / "hub" : expanded(cache, home));
  environment.token = find_token(lookup, tools, home);
  environment.offline = is_true(first_set(lookup, "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"));
  environment.lookup = std::move(lookup);
  return environment;
}

std::optional<Proxy> proxy_for(const Url& url, const Lookup& lookup) {
  const std::string value =
      url.https ? first_set(lookup, "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
                : first_set(lookup, "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY");
  if (value.empty() || goes_direct(url, first_set(lookup, "no_proxy", "NO_PROXY")))
    return std::nullopt;

  Proxy proxy;
  std::string address = value.find("://") == std::string::npos ? "http://" + value : value;
  const size_t begin = address.find("://") + 3;
  const size_t at = address.rfind('@');
  if (at != std::string::npos && at > begin) {
    const std::string user = address.substr(begin, at - begin);
    const size_t colon = std::min(user.find(':'), user.size());
    proxy.user = user.substr(0, colon);
    proxy.password = colon < user.size() ? user.substr(colon + 1) : "";
    address.erase(begin, at + 1 - begin);
  }
  try {
    const Url parsed = parse_url(address);
    if (parsed.https) throw HubError("");
    proxy.host = parsed.host;
    proxy.port = parsed.port;
  } catch (const HubError&) {
    // Its value may hold a password.
    throw HubError(std::string(url.https ? "HTTPS_PROXY" : "HTTP_PROXY") +
                   " is none that can be used: expected http://[USER:PASSWORD@]HOST[:PORT]");
  }
  return proxy;
}

}  // namespace espalier::hub
