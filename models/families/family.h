// The families of causal decoders: what each adds to the decoder that they share, and how its
// config.json says so. One file a family.
//
// Thread contract: constants.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "models/json_file.h"
#include "models/model_config.h"

namespace espalier::models {

struct Family {
  std::string_view model_type;    // "qwen3"
  std::string_view class_prefix;  // "Qwen3": of Qwen3ForCausalLM, Qwen3Model, …
  bool qk_norm;
  bool qkv_bias;
  size_t default_head_dim;  // where config.json gives none; 0: hidden_size / num_attention_heads
  size_t default_kv_heads;  // the same; 0: num_attention_heads
  /// Reads what is the family's own: biases and the window, into a config that has all the rest.
  void (*read)(const JsonObject& object, ModelConfig& config);
};

extern const Family kLlama;
extern const Family kMistral;
extern const Family kQwen2;
extern const Family kQwen3;

/// The family of this model_type; null when there is none.
const Family* find_family(std::string_view model_type);

/// "llama, mistral, qwen2, qwen3".
std::string family_names();

// What families read alike.

/// attention_bias (false when absent): of queries, keys, values and the output.
void read_attention_bias(const JsonObject& object, ModelConfig& config);

/// Refuses `key` when it is true: the family's published code has no such biases.
void refuse_bias(const JsonObject& object, std::string_view key);

/// sliding_window where every layer has it; `fallback` when absent, 0 for none. null: no window.
void read_window(const JsonObject& object, size_t fallback, ModelConfig& config);

/// sliding_window where use_sliding_window turns it on for the layers from max_window_layers, or
/// for those that layer_types names.
void read_window_of_layers(const JsonObject& object, ModelConfig& config);

}  // namespace espalier::models
