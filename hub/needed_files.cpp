#include "hub/needed_files.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "hub/gguf_choice.h"
#include "hub/hub_error.h"
#include "hub/model_reference.h"

namespace espalier::hub {
namespace {

using nlohmann::json;

constexpr size_t kModulesMax = 32;
constexpr size_t kShardsMax = 2000;
constexpr size_t kFilesOfModulesMax = 200;

constexpr std::array kSettings = {"config.json",
                                  "tokenizer.json",
                                  "tokenizer_config.json",
                                  "special_tokens_map.json",
                                  "chat_template.jinja",
                                  kModules,
                                  "config_sentence_transformers.json",
                                  "sentence_bert_config.json"};
constexpr std::string_view kTemplates = "additional_chat_templates/";
constexpr size_t kAdaptersMax = 100;
constexpr std::string_view kAdapters = "adapters/";
constexpr std::string_view kAdapterConfig = "adapter_config.json";
constexpr std::string_view kAdapterWeights = "adapter_model.safetensors";

bool contains(const std::vector<std::string>& files, std::string_view name) {
  return std::ranges::find(files, name) != files.end();
}

/// LoRA adapters that the model brings along: adapters/NAME/…, which --lora NAME chooses.
std::vector<std::string> files_of_adapters(const std::vector<std::string>& files,
                                           const std::string& repository) {
  std::vector<std::string> needed;
  for (const std::string& file : files) {
    const std::string folder = file.substr(0, file.rfind('/') + 1);
    const bool is_config = file == folder + std::string(kAdapterConfig);
    const std::string weights = folder + std::string(kAdapterWeights);
    if (!is_config || !folder.starts_with(kAdapters) || std::ranges::count(folder, '/') != 2 ||
        !contains(files, weights))
      continue;
    needed.push_back(file);
    needed.push_back(weights);
    if (needed.size() > 2 * kAdaptersMax) throw HubError(repository + " has too many adapters");
  }
  return needed;
}

bool is_direct_child(std::string_view file, std::string_view folder_with_slash) {
  return file.starts_with(folder_with_slash) &&
         file.find('/', folder_with_slash.size()) == std::string_view::npos;
}

bool has_safetensors(const std::vector<std::string>& files) {
  return contains(files, kWeights) || contains(files, kWeightIndex);
}

}  // namespace

std::vector<Module> parse_modules(const std::string& json_text, const std::string& source) {
  const json root = json::parse(json_text, nullptr, false);
  if (!root.is_array() || root.size() > kModulesMax)
    throw HubError(source + ": expected an array of modules");
  std::vector<Module> modules;
  for (const json& entry : root) {
    const auto type = entry.is_object() ? entry.find("type") : entry.end();
    const auto path = entry.is_object() ? entry.find("path") : entry.end();
    if (!entry.is_object() || type == entry.end() || !type->is_string() || path == entry.end() ||
        !path->is_string())
      throw HubError(source + ": expected modules with `type` and `path`");
    Module module{type->get<std::string>(), path->get<std::string>()};
    module.kind.erase(0, module.kind.rfind('.') + 1);
    if (module.folder == ".") module.folder.clear();
    if (!module.folder.empty() && !is_safe_path(module.folder))
      throw HubError(source + ": the `path` of a module leads out of the model's folder");
    modules.push_back(std::move(module));
  }
  return modules;
}

std::vector<std::string> parse_shards(const std::string& json_text, const std::string& source) {
  const json root = json::parse(json_text, nullptr, false);
  const auto map = root.is_object() ? root.find("weight_map") : root.end();
  if (!root.is_object() || map == root.end() || !map->is_object())
    throw HubError(source + ": expected an object `weight_map`");
  std::set<std::string> shards;
  for (const json& shard : *map) {
    if (!shard.is_string() || !is_safe_path(shard.get_ref<const std::string&>()) ||
        !shard.get_ref<const std::string&>().ends_with(".safetensors"))
      throw HubError(source + ": expected names of .safetensors files in `weight_map`");
    shards.insert(shard.get<std::string>());
    if (shards.size() > kShardsMax) throw HubError(source + ": names too many files");
  }
  return {shards.begin(), shards.end()};
}

bool reads_gguf(const std::vector<std::string>& files, const std::string& gguf) {
  return !gguf.empty() || (!has_safetensors(files) && any_gguf(files));
}

std::vector<std::string> settings_files(const std::vector<std::string>& files,
                                        const std::string& repository) {
  if (!contains(files, "config.json") && contains(files, kAdapterConfig))
    throw HubError(repository +
                   " is a LoRA adapter and no model: download its files into a folder, and start "
                   "the model that it was trained for with --lora FOLDER");
  if (!contains(files, "config.json"))
    throw HubError(repository + " has no config.json: it is no model that can be loaded");
  if (!has_safetensors(files)) {
    throw HubError(repository +
                   " has no model.safetensors: weights in other formats (pytorch_model.bin, ONNX) "
                   "are not read; look for a conversion to safetensors or GGUF");
  }
  if (!contains(files, "tokenizer.json")) {
    throw HubError(repository +
                   " has no tokenizer.json, the only kind of tokenizer file that is read beside "
                   "GGUF; transformers writes one: "
                   "AutoTokenizer.from_pretrained(MODEL).save_pretrained(FOLDER)");
  }
  std::vector<std::string> needed;
  for (const char* name : kSettings) {
    if (contains(files, name)) needed.emplace_back(name);
  }
  std::ranges::copy_if(files, std::back_inserter(needed), [](const std::string& file) {
    return is_direct_child(file, kTemplates) && file.ends_with(".jinja");
  });
  if (!contains(files, kWeights)) needed.emplace_back(kWeightIndex);
  return needed;
}

std::vector<std::string> further_files(const std::vector<std::string>& files,
                                       const std::vector<Module>& modules,
                                       const std::vector<std::string>& shards,
                                       const std::string& repository) {
  std::vector<std::string> needed;
  for (const Module& module : modules) {
    if (module.folder.empty()) continue;
    for (const auto& file : files) {
      if (is_direct_child(file, module.folder + "/") &&
          (file.ends_with(".json") || file.ends_with(".safetensors")) && !contains(needed, file))
        needed.push_back(file);
    }
    for (const auto& file : required_of_module(module)) {
      if (!contains(files, file))
        throw HubError(repository + " has no " + file + ", which its modules.json asks for");
    }
    if (needed.size() > kFilesOfModulesMax)
      throw HubError(repository + " has too many files in the folders of its modules");
  }
  const std::vector<std::string> adapters = files_of_adapters(files, repository);
  needed.insert(needed.end(), adapters.begin(), adapters.end());
  if (contains(files, kWeights)) {
    needed.emplace_back(kWeights);
    return needed;
  }
  for (const auto& shard : shards) {
    if (!contains(files, shard))
      throw HubError(repository + " has no " + shard + ", which its " + kWeightIndex + " names");
    needed.push_back(shard);
  }
  return needed;
}

std::vector<std::string> required_of_module(const Module& module) {
  // These two have nothing to say.
  if (module.folder.empty() || module.kind == "Normalize" || module.kind == "Dropout") return {};
  std::vector<std::string> required = {module.folder + "/config.json"};
  if (module.kind == "Dense") required.push_back(module.folder + "/model.safetensors");
  return required;
}

}  // namespace espalier::hub
