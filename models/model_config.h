// What a model folder says of itself: config.json and sentence-transformers' files, checked.
//
// Plain data. The readers throw std::runtime_error naming file, key and reason for whatever is
// missing, of the wrong type or range, or would change results and is not supported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace espalier::models {

/// config.json of a causal decoder.
struct ModelConfig {
  std::string model_type;    // "qwen3"
  std::string architecture;  // first of `architectures`, may be empty
  std::string torch_dtype;   // as published, for display
  size_t layers = 0;
  size_t hidden_size = 0;
  size_t intermediate_size = 0;
  size_t query_heads = 0;
  size_t kv_heads = 0;
  size_t head_dim = 0;
  size_t vocab_size = 0;  // rows of the embedding table that config.json promises
  size_t max_positions = 0;
  float rms_norm_eps = 1e-6F;
  double rope_theta = 10000.0;
  bool tied_embeddings = false;
};
ModelConfig read_model_config(const std::filesystem::path& folder);

/// How hidden states become embeddings.
struct EmbeddingConfig {
  bool normalize = true;                       // L2
  std::map<std::string, std::string> prompts;  // name -> text put before the input
  std::string default_prompt_name;             // empty: none
  bool from_sentence_transformers = false;     // read from the folder's files rather than assumed
};
EmbeddingConfig read_embedding_config(const std::filesystem::path& folder);

}  // namespace espalier::models
