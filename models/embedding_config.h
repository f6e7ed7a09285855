// How a model folder says that hidden states become embeddings: sentence-transformers' files
// (modules.json, the modules' config.json, config_sentence_transformers.json), checked.
//
// Plain data. The reader throws std::runtime_error naming file, key and reason for whatever is
// missing, of the wrong type or range, or would change results and is not supported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::models {

/// Which hidden state of a text its embedding is made of.
enum class Pooling : uint8_t { kLastToken, kMean, kFirstToken };
std::string_view name_of(Pooling pooling);  // "last_token", "mean", "first_token"

/// A Dense module: activation(W · x + b), behind pooling.
struct DenseConfig {
  enum class Activation : uint8_t { kIdentity, kTanh };

  std::filesystem::path folder;  // holds its model.safetensors
  size_t inputs = 0;
  size_t outputs = 0;
  bool bias = true;
  Activation activation = Activation::kTanh;
};

struct EmbeddingConfig {
  Pooling pooling = Pooling::kLastToken;
  std::vector<DenseConfig> dense;  // one behind the other
  bool normalize = true;           // L2, at the end
  /// Matryoshka: lengths that embeddings may be cut to, ascending; empty: any.
  std::vector<size_t> dimensions;
  std::optional<size_t> default_dimensions;    // that they are cut to unless asked otherwise
  std::map<std::string, std::string> prompts;  // name -> text put before the input
  std::string default_prompt_name;             // empty: none
  bool from_sentence_transformers = false;     // read from the folder's files rather than assumed
  bool has_pooling_module = false;             // modules.json says that it embeds
};

EmbeddingConfig read_embedding_config(const std::filesystem::path& model);

/// Values of an embedding, for hidden states of `hidden_size`. Throws std::runtime_error where the
/// Dense modules do not fit each other or the hidden states, or `dimensions` lie beyond it.
size_t embedding_size(const EmbeddingConfig& config, size_t hidden_size);

}  // namespace espalier::models
