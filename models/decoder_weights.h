// The weights of a causal decoder, packed for a GEMM backend as its layers use them.
//
// Thread contract: loading is one thread's; what it returns is immutable.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/gemm.h"
#include "engine/safetensors.h"
#include "engine/thread_pool.h"
#include "models/model_config.h"
#include "models/weight_source.h"

namespace espalier::models {

/// One layer. Q = query_heads · head_dim, K = kv_heads · head_dim, I = intermediate_size.
struct LayerWeights {
  std::vector<float> input_norm;                          // (H)
  std::unique_ptr<engine::PackedMatrix> query_key_value;  // (Q + 2K × H)
  std::vector<float> query_norm, key_norm;                // (head_dim), or none
  std::unique_ptr<engine::PackedMatrix> output;           // (H × Q)
  std::vector<float> post_attention_norm;                 // (H)
  std::unique_ptr<engine::PackedMatrix> gate_up;          // (2I × H), gated
  std::unique_ptr<engine::PackedMatrix> down;             // (H × I)

  // One for each output of the products, or none.
  std::vector<float> query_key_value_bias, output_bias, gate_up_bias, down_bias;
};

struct DecoderWeights {
  WeightTensor token_embeddings;  // (vocab × H)
  std::vector<LayerWeights> layers;
  std::vector<float> final_norm;  // (H)
};

/// Every tensor of a decoder of this configuration, without `lm_head.weight`. The table of token
/// embeddings, which comes first, must have exactly vocab_size rows, as for Hugging Face.
std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config);

/// The table that the head reads: `lm_head.weight` or, when embeddings are tied, the token
/// embeddings. Its name is empty when an untied model comes without a head, as pure embedding
/// models do.
ExpectedTensor head_tensor(const ModelConfig& config, const WeightSource& source);

/// Throws std::runtime_error naming file, tensor and reason unless `source` has every tensor that
/// the configuration needs, in the right shape, and none that would change results but is not read:
/// here, or by the caller, who names those in `read_elsewhere`.
void check_tensors(const ModelConfig& config, const WeightSource& source,
                   const std::set<std::string>& read_elsewhere = {});

/// Packs layer by layer, releasing the pages of what is packed; `packed(bytes)` is called after
/// each tensor with its bytes in the file. The source must have passed check_tensors() and outlive
/// the result.
DecoderWeights load_decoder_weights(const ModelConfig& config, const WeightSource& source,
                                    const engine::GemmBackend& gemm, engine::ThreadPool& pool,
                                    const std::function<void(size_t bytes)>& packed);

/// Bytes that load_decoder_weights() takes in the backend's format, without the table in the map.
size_t packed_weight_bytes(const ModelConfig& config, const engine::GemmBackend& gemm);

}  // namespace espalier::models
