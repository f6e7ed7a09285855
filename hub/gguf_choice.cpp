#include "hub/gguf_choice.h"

#include <algorithm>
#include <cctype>

#include "hub/hub_error.h"

namespace espalier::hub {
namespace {

constexpr std::string_view kSuffix = ".gguf";
constexpr size_t kListedMax = 40;

std::string upper_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// Whether "Q8_0" stands in "Model-Q8_0.gguf" by itself: "Q4_K" does not in "Model-Q4_K_M.gguf".
bool names_quantisation(const std::string& file, const std::string& wanted) {
  const std::string name = upper_case(base_name(file));
  const std::string quantisation = upper_case(wanted);
  const auto separates = [](char c) { return c == '-' || c == '.'; };
  for (size_t at = name.find(quantisation); at != std::string::npos;
       at = name.find(quantisation, at + 1)) {
    const size_t end = at + quantisation.size();
    if ((at == 0 || separates(name[at - 1])) && (end == name.size() || separates(name[end])))
      return true;
  }
  return false;
}

/// "…-00001-of-00003.gguf".
bool is_part(const std::string& file) {
  const std::string name = base_name(file);
  const size_t of = name.rfind("-of-");
  return of != std::string::npos && of > 0 &&
         std::isdigit(static_cast<unsigned char>(name[of - 1])) != 0 && name.size() > of + 4 &&
         std::isdigit(static_cast<unsigned char>(name[of + 4])) != 0;
}

std::string list(const std::vector<std::string>& files) {
  std::string out;
  for (size_t i = 0; i < std::min(files.size(), kListedMax); ++i)
    out += (out.empty() ? "" : ", ") + files[i];
  return out + (files.size() > kListedMax ? ", …" : "");
}

}  // namespace

bool is_gguf(const std::string& file) {
  return file.size() > kSuffix.size() &&
         upper_case(file).ends_with(upper_case(std::string(kSuffix)));
}

bool any_gguf(const std::vector<std::string>& files) { return std::ranges::any_of(files, is_gguf); }

std::string choose_gguf(const std::vector<std::string>& files, const std::string& wanted,
                        const std::string& repository) {
  std::vector<std::string> models, meant;
  for (const auto& file : files) {
    // The projectors of models that see are no models.
    if (is_gguf(file) && upper_case(file).find("MMPROJ") == std::string::npos)
      models.push_back(file);
  }
  std::ranges::sort(models);
  if (models.empty()) throw HubError(repository + " has no GGUF file");
  const auto keep = [&](const auto& fits) {
    if (meant.empty()) std::ranges::copy_if(models, std::back_inserter(meant), fits);
  };
  if (wanted.empty()) {
    meant = models;
  } else {
    keep([&](const std::string& file) { return file == wanted; });
    keep([&](const std::string& file) { return base_name(file) == wanted; });
    keep([&](const std::string& file) { return names_quantisation(file, wanted); });
  }
  if (meant.empty()) {
    throw HubError(repository + " has no GGUF file '" + wanted + "'; it has " + list(models));
  }
  if (is_part(meant.front())) {
    throw HubError(meant.front() + " of " + repository +
                   " is one of several parts of a model, which are not read; choose a file that "
                   "is whole: " +
                   list(models));
  }
  if (meant.size() > 1) {
    throw HubError(repository + " has several GGUF files; name one, as in " + repository + ":" +
                   base_name(meant.front()) + ", or its quantisation: " + list(meant));
  }
  return meant.front();
}

}  // namespace espalier::hub
