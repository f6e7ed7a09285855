#include "models/sentence_modules.h"

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "models/json_file.h"
#include "models/known_code.h"

namespace espalier::models {
namespace {

using nlohmann::json;

/// The class that a module's `type` names, without the packages that it lies in.
std::string module_class(const JsonObject& module, const KnownCode* code) {
  constexpr std::string_view kPackage = "sentence_transformers.";
  const std::string type = module.text("type", "");
  if (code != nullptr && type == code->transformer_module) return "Transformer";
  if (type.compare(0, kPackage.size(), kPackage) != 0) {
    module.fail("type", excerpt(type) + " is not supported");
  }
  return type.substr(type.rfind('.') + 1);
}

/// A module's `path`: one folder name, so that it cannot lead out of the model folder.
std::string module_folder(const JsonObject& module) {
  std::string folder = module.text("path", "");
  if (folder.empty() || folder == "." || folder == ".." ||
      folder.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos) {
    module.fail("path", "expected the name of a folder, found " + excerpt(folder));
  }
  return folder;
}

}  // namespace

std::vector<SentenceModule> read_sentence_modules(const std::filesystem::path& folder) {
  if (!has_file(folder, "modules.json")) return {};
  const std::filesystem::path file = folder / "modules.json";
  const json root = read_json_file(file);
  if (!root.is_array()) {
    throw std::runtime_error(file.string() + ": expected an array of modules, found " +
                             excerpt(root));
  }
  const KnownCode* const code = find_known_code(folder);
  std::vector<SentenceModule> modules;
  for (size_t i = 0; i < root.size(); ++i) {
    std::string where = file.string() + ": module " + std::to_string(i);
    const JsonObject module(root[i], where);
    std::string kind = module_class(module, code);
    if (i == 0 && kind == "Transformer") {
      if (!module.text("path", "").empty()) {
        module.fail("path", "the transformer must be in the model folder itself");
      }
      continue;
    }
    if (i == 0) module.fail("type", excerpt(kind) + " is not supported here; Transformer is first");
    const std::filesystem::path config = folder / module_folder(module) / "config.json";
    modules.push_back({std::move(kind), config, std::move(where)});
  }
  if (root.empty()) throw std::runtime_error(file.string() + ": expected the module Transformer");
  return modules;
}

}  // namespace espalier::models
