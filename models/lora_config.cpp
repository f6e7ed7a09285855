#include "models/lora_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "models/json_file.h"

namespace espalier::models {
namespace {

using nlohmann::json;

constexpr size_t kRankMax = size_t{1} << 16U;
constexpr double kAlphaMax = 1e6;  // far above any in use, far below where f32 overflows

/// Keys that say where the adapter came from, how it was trained, or which modules it may have: its
/// tensors tell which it has.
constexpr std::array<std::string_view, 25> kWithoutEffect{"auto_mapping",
                                                          "base_model_name_or_path",
                                                          "corda_config",
                                                          "ensure_weight_tying",
                                                          "eva_config",
                                                          "exclude_modules",
                                                          "inference_mode",
                                                          "layers_pattern",
                                                          "layers_to_transform",
                                                          "lora_dropout",
                                                          "lora_ga_config",
                                                          "megatron_core",
                                                          "peft_version",
                                                          "qalora_group_size",
                                                          "revision",
                                                          "runtime_config",
                                                          "target_modules",
                                                          "task_type",
                                                          "loftq_config",
                                                          "r",
                                                          "lora_alpha",
                                                          "use_rslora",
                                                          "rank_pattern",
                                                          "alpha_pattern",
                                                          "peft_type"};

/// Initialisations that leave the base model's weights as they are; those by name of a
/// decomposition (pissa, olora, corda, loftq) take something out of them.
constexpr std::array<std::string_view, 3> kPlainInitialisations{"gaussian", "eva", "orthogonal"};

/// Whether a setting is off: PEFT writes most of them so.
bool is_off(const json& value) {
  return value.is_null() || value == false ||
         ((value.is_object() || value.is_array()) && value.empty());
}

void check_initialisation(const JsonObject& config) {
  constexpr char kKey[] = "init_lora_weights";
  if (!config.has(kKey) || config.at(kKey).is_boolean()) return;
  const std::string name = config.text(kKey, "");
  if (std::ranges::find(kPlainInitialisations, name) != kPlainInitialisations.end()) return;
  config.fail(kKey, "\"" + name.substr(0, 40) +
                        "\" changes the base model's weights; convert the adapter to plain LoRA "
                        "(PEFT: save_pretrained with path_initial_model_for_weight_conversion)");
}

void check_keys(const JsonObject& config) {
  for (const std::string& key : config.keys()) {
    if (std::ranges::find(kWithoutEffect, key) != kWithoutEffect.end()) continue;
    if (key == "bias") {
      if (const std::string bias = config.text(key, "none"); bias != "none") {
        config.fail(key, "\"" + bias.substr(0, 40) + "\" is not supported, \"none\" is");
      }
    } else if (key == "init_lora_weights") {
      check_initialisation(config);
    } else if (!config.is_null(key) && !is_off(config.at(key))) {
      config.fail(key,
                  "is not supported, and would change results; found " + excerpt(config.at(key)));
    }
  }
}

/// PEFT reads them as regular expressions; names alone have one meaning.
void check_pattern(const JsonObject& patterns, const std::string& name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.';
  };
  if (name.empty() || !std::ranges::all_of(name, plain)) {
    patterns.fail(name, "is a regular expression; only names of modules are supported");
  }
}

/// `read(patterns, name)` for each name.
template <typename Value, typename Read>
std::map<std::string, Value> read_patterns(const JsonObject& config, const char* key, Read read) {
  std::map<std::string, Value> values;
  const auto patterns = config.object(key);
  if (!patterns) return values;
  for (const std::string& name : patterns->keys()) {
    check_pattern(*patterns, name);
    values[name] = read(*patterns, name);
  }
  return values;
}

/// The value of the longest name that the module's name is, or ends in.
template <typename Value>
Value value_of(const std::map<std::string, Value>& patterns, const std::string& module,
               Value fallback) {
  size_t longest = 0;
  for (const auto& [name, value] : patterns) {
    const bool matches =
        module == name || module.ends_with("." + name) || "model." + module == name;
    if (!matches || name.size() <= longest) continue;
    longest = name.size();
    fallback = value;
  }
  return fallback;
}

double read_alpha(const JsonObject& object, const std::string& key) {
  const auto alpha = object.number(key);
  if (!alpha) object.fail(key, "is missing");
  if (std::fabs(*alpha) > kAlphaMax) object.fail(key, "must be from -1000000 to 1000000");
  return *alpha;
}

}  // namespace

size_t LoraConfig::rank_of(const std::string& module) const {
  return value_of(rank_pattern, module, rank);
}

double LoraConfig::scale_of(const std::string& module) const {
  const auto r = static_cast<double>(rank_of(module));
  return value_of(alpha_pattern, module, alpha) / (rslora ? std::sqrt(r) : r);
}

LoraConfig read_lora_config(const std::filesystem::path& folder) {
  const auto file = folder / "adapter_config.json";
  const json root = read_json_file(file);
  const JsonObject config(root, file.string());
  if (const std::string type = config.text("peft_type", "LORA"); type != "LORA") {
    config.fail("peft_type", "\"" + type.substr(0, 40) + "\" is not supported, \"LORA\" is");
  }
  check_keys(config);
  LoraConfig lora;
  lora.rank = config.size("r", kRankMax);
  lora.alpha = read_alpha(config, "lora_alpha");
  lora.rslora = config.boolean("use_rslora", false);
  lora.rank_pattern = read_patterns<size_t>(
      config, "rank_pattern", [](const JsonObject& patterns, const std::string& name) {
        return patterns.size(name, kRankMax);
      });
  lora.alpha_pattern = read_patterns<double>(config, "alpha_pattern", read_alpha);
  return lora;
}

}  // namespace espalier::models
