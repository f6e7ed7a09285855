// sentence-transformers' files of a model folder: modules.json, the pooling module's config.json,
// and config_sentence_transformers.json.
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "models/gguf_config.h"
#include "models/json_file.h"
#include "models/model_config.h"

namespace espalier::models {
namespace {

using nlohmann::json;
using Path = std::filesystem::path;

/// The class that a module's `type` names: "Pooling" of "sentence_transformers.models.Pooling".
/// Modules of other packages are code that this server does not have.
std::string module_class(const JsonObject& module) {
  constexpr std::string_view kPackage = "sentence_transformers.";
  const std::string type = module.text("type", "");
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

/// Refuses every pooling but the last token's. `include_prompt: false` changes nothing for that
/// one.
void check_pooling(const Path& file) {
  constexpr std::string_view kModePrefix = "pooling_mode_";
  constexpr std::string_view kReason = "only last-token pooling is supported";
  const json root = read_json_file(file);
  const JsonObject object(root, file.string());
  bool last_token = object.boolean("pooling_mode_lasttoken", false);
  for (const auto& [key, value] : root.items()) {
    const bool is_mode = key.compare(0, kModePrefix.size(), kModePrefix) == 0;
    if (is_mode && key != "pooling_mode_lasttoken" && object.boolean(key, false)) {
      object.fail(key, kReason);
    }
  }
  if (object.has("pooling_mode")) {  // newer versions name it in one key
    if (object.text("pooling_mode", "") != "lasttoken") object.fail("pooling_mode", kReason);
    last_token = true;
  }
  if (!last_token) object.fail("pooling_mode_lasttoken", "is not true; " + std::string(kReason));
}

/// Reads modules.json: Transformer, Pooling and, if the model says so, Normalize, in this order.
void read_modules(const Path& folder, EmbeddingConfig& config) {
  const Path file = folder / "modules.json";
  const json root = read_json_file(file);
  if (!root.is_array()) {
    throw std::runtime_error(file.string() + ": expected an array of modules, found " +
                             excerpt(root));
  }
  const std::vector<std::string> supported = {"Transformer", "Pooling", "Normalize"};
  for (size_t i = 0; i < root.size(); ++i) {
    const JsonObject module(root[i], file.string() + ": module " + std::to_string(i));
    const std::string name = module_class(module);
    if (i >= supported.size() || name != supported[i]) {
      module.fail("type", excerpt(name) +
                              " is not supported here; supported: Transformer, Pooling and "
                              "optionally Normalize, in this order");
    }
    if (name == "Transformer" && !module.text("path", "").empty()) {
      module.fail("path", "the transformer must be in the model folder itself");
    }
    if (name == "Pooling") check_pooling(folder / module_folder(module) / "config.json");
  }
  if (root.size() < 2) {
    throw std::runtime_error(file.string() + ": expected the modules Transformer and Pooling");
  }
  config.normalize = root.size() == 3;
}

void read_prompts(const Path& file, EmbeddingConfig& config) {
  const json root = read_json_file(file);
  const JsonObject object(root, file.string());
  if (const auto prompts = object.object("prompts")) {
    for (const auto& [name, value] : root["prompts"].items()) {
      config.prompts[name] = prompts->text(name, "");
    }
  }
  config.default_prompt_name = object.text("default_prompt_name", "");
  if (!config.default_prompt_name.empty() && !config.prompts.contains(config.default_prompt_name)) {
    object.fail("default_prompt_name", excerpt(config.default_prompt_name) + " is not in prompts");
  }
}

/// The tokenizer does not lower-case on its own account, so a model that was trained that way would
/// get other ids.
void refuse_lower_casing(const Path& file) {
  const json root = read_json_file(file);
  const JsonObject object(root, file.string());
  if (object.boolean("do_lower_case", false)) object.fail("do_lower_case", "is not supported");
}

}  // namespace

EmbeddingConfig read_embedding_config(const Path& model) {
  if (is_gguf(model)) return read_gguf_embedding_config(engine::GgufFile::open(model));
  const Path& folder = model;
  EmbeddingConfig config;
  if (has_file(folder, "modules.json")) {
    read_modules(folder, config);
    config.from_sentence_transformers = true;
  }
  if (has_file(folder, "config_sentence_transformers.json")) {
    read_prompts(folder / "config_sentence_transformers.json", config);
    config.from_sentence_transformers = true;
  }
  if (has_file(folder, "sentence_bert_config.json")) {
    refuse_lower_casing(folder / "sentence_bert_config.json");
  }
  return config;
}

}  // namespace espalier::models
