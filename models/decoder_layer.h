// One layer of a Qwen3 decoder: grouped-query attention and a gated MLP, each behind an RMSNorm and
// added to the residual stream (Yang et al. 2025, "Qwen3 Technical Report", section 2).
//
//   a = x + Wo · attention(rope(norm(Wq · n)), rope(norm(Wk · n)), Wv · n),  n = norm(x)
//   y = a + Wdown · (silu(Wgate · m) ⊙ (Wup · m)),                           m = norm(a)
//
// Thread contract: immutable; a call writes only to its context's workspace and its arguments.
#pragma once

#include <cstdint>
#include <span>

#include "engine/gemm.h"
#include "engine/mat_view.h"
#include "engine/row_kernels.h"
#include "engine/thread_pool.h"
#include "models/attention_modes.h"
#include "models/decoder_weights.h"
#include "models/model_config.h"
#include "models/workspace.h"

namespace espalier::models {

/// What the layers of one forward pass share.
struct LayerContext {
  const engine::GemmBackend& gemm;
  engine::ThreadPool& pool;
  const engine::RopeTable& rope;
  BatchAttention& attention;
  Workspace& workspace;
  std::span<const uint32_t> positions;         // (C)
  std::span<const uint32_t> wanted_rows;       // (W)
  std::span<const uint32_t> wanted_positions;  // (W)
};

class DecoderLayer {
 public:
  DecoderLayer(const ModelConfig& config, LayerWeights weights);

  /// hidden (C × H) becomes the layer's output. Not for the last layer.
  void forward(const LayerContext& context, engine::MutMatView hidden) const;

  /// wanted (W × H) becomes the layer's output for the wanted rows: keys and values are computed
  /// for all rows, everything else for those alone. For the last layer.
  void forward_wanted(const LayerContext& context, engine::ConstMatView hidden,
                      engine::MutMatView wanted) const;

 private:
  void project(const LayerContext& context, engine::ConstMatView hidden,
               const engine::PackedMatrix& weights, engine::MutMatView out) const;
  void norm_and_rotate(const LayerContext& context, std::span<const uint32_t> positions,
                       std::span<const float> norm, engine::MutMatView heads) const;
  void add_attention_and_mlp(const LayerContext& context, engine::ConstMatView attended,
                             engine::MutMatView hidden) const;

  LayerWeights weights_;
  size_t head_dim_;
  size_t query_width_;  // Q
  size_t kv_width_;     // K
  size_t intermediate_size_;
  float eps_;
};

}  // namespace espalier::models
