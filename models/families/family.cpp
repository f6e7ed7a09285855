#include "models/families/family.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace espalier::models {
namespace {

using nlohmann::json;

constexpr const Family* kFamilies[] = {&kLlama, &kMistral, &kQwen2, &kQwen3};
constexpr size_t kMaxWindow = size_t{1} << 32;
// Where a config turns windows on and names no size: Qwen's and Mistral's published default.
constexpr size_t kDefaultWindow = 4096;
constexpr size_t kDefaultMaxWindowLayers = 28;
constexpr size_t kMaxLayers = size_t{1} << 20;

/// Whether layer_types, checked before, names a layer with a window.
bool has_sliding_layer(const json& layer_types) {
  return std::ranges::find(layer_types, json("sliding_attention")) != layer_types.end();
}

}  // namespace

const Family* find_family(std::string_view model_type) {
  const auto* const found = std::ranges::find(kFamilies, model_type, &Family::model_type);
  return found == std::end(kFamilies) ? nullptr : *found;
}

std::string family_names() {
  std::string names;
  for (const Family* family : kFamilies) {
    if (!names.empty()) names += ", ";
    names += family->model_type;
  }
  return names;
}

void read_attention_bias(const JsonObject& object, ModelConfig& config) {
  config.qkv_bias = config.output_bias = object.boolean("attention_bias", false);
}

void refuse_bias(const JsonObject& object, std::string_view key) {
  if (object.boolean(key, false)) {
    object.fail(key,
                "models of model_type " + object.text("model_type", "") + " have no such biases");
  }
}

void read_window(const JsonObject& object, size_t fallback, ModelConfig& config) {
  if (object.is_null("sliding_window")) return;
  config.sliding_window =
      object.has("sliding_window") ? object.size("sliding_window", kMaxWindow) : fallback;
}

void read_window_of_layers(const JsonObject& object, ModelConfig& config) {
  const bool used = object.boolean("use_sliding_window", false);
  const bool by_layer = object.has("layer_types");
  const bool slides = by_layer && has_sliding_layer(object.at("layer_types"));
  const bool windowless = !used || object.is_null("sliding_window");
  if (windowless) {
    if (slides) {
      object.fail("layer_types",
                  "names sliding_attention, but use_sliding_window and "
                  "sliding_window give no window");
    }
    return;
  }
  const size_t first = object.count("max_window_layers", kMaxLayers, kDefaultMaxWindowLayers);
  if (by_layer ? slides : first < config.layers) {
    config.sliding_window = object.size("sliding_window", kMaxWindow, kDefaultWindow);
  }
}

}  // namespace espalier::models
