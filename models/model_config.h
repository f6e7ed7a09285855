// What config.json says of a causal decoder, checked.
//
// Plain data. The readers throw std::runtime_error naming file, key and reason for whatever is
// missing, of the wrong type or range, or would change results and is not supported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/activation_function.h"
#include "engine/rope_frequencies.h"
#include "models/json_file.h"

namespace espalier::models {

/// config.json of a causal decoder.
struct ModelConfig {
  std::string model_type;    // its family: see models/families/family.h
  std::string architecture;  // first of `architectures`, may be empty
  std::string torch_dtype;   // as published, for display
  // LoRA adapters of the folder, without one of which the model is not used; and the models that
  // have one merged, up to its name. Empty as a rule.
  std::vector<std::string> needed_adapters;
  std::string merged_models;
  size_t layers = 0;
  size_t hidden_size = 0;
  size_t intermediate_size = 0;
  size_t query_heads = 0;
  size_t kv_heads = 0;
  size_t head_dim = 0;
  size_t vocab_size = 0;              // rows of the embedding table that config.json promises
  std::optional<size_t> table_bytes;  // of the embedding table in its file, where that is known
  float rms_norm_eps = 1e-6F;
  bool tied_embeddings = false;

  // Positions that an input may have: the least of the next two.
  size_t max_positions = 0;
  size_t rope_positions = 0;  // that rotary embedding is meant for, as trained or stretched
  size_t sliding_window = 0;  // tokens that a token sees in some layer, itself among them; 0: all.
                              // Inputs that fit are computed as without a window.
  double rope_theta = 10000.0;
  engine::RopeScaling rope_scaling;

  // What families differ in.
  bool qk_norm = false;      // RMSNorm of each head of queries and keys
  bool qkv_bias = false;     // biases of the products of attention,
  bool output_bias = false;  // of what follows it,
  bool mlp_bias = false;     // and of all three of the MLP
  engine::ActivationFunction activation = engine::ActivationFunction::kSilu;
};
/// `model`: a folder, or a GGUF file.
ModelConfig read_model_config(const std::filesystem::path& model);
/// The same from a parsed config.json.
ModelConfig read_model_config(const JsonObject& object);

/// What in config.json limits inputs to max_positions tokens: "max_position_embeddings",
/// "rope_scaling", or "sliding_window: …".
std::string limit_of_positions(const ModelConfig& config);

}  // namespace espalier::models
