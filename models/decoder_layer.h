// One layer of a causal decoder: grouped-query attention and a gated MLP, each behind an RMSNorm
// and added to the residual stream (Touvron et al. 2023, "LLaMA", section 2.2).
//
//   a = x + Wo · attention(rope(Wq · n), rope(Wk · n), Wv · n),   n = norm(x)
//   y = a + Wdown · (act(Wgate · m) ⊙ (Wup · m)),                 m = norm(a)
//
// Families add a norm to each head of queries and keys before rope (Yang et al. 2025, "Qwen3
// Technical Report"), or biases to products.
//
// A layer goes through the batch block by block. That is possible because a row's keys are rows
// before it (preorder): when a block attends, all that it reads is there.
//
// Thread contract: immutable; a call writes only to its context's workspace and its arguments.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "engine/gemm.h"
#include "engine/mat_view.h"
#include "engine/row_kernels.h"
#include "engine/thread_pool.h"
#include "models/attention_modes.h"
#include "models/decoder_weights.h"
#include "models/model_config.h"
#include "models/stage_seconds.h"
#include "models/workspace.h"

namespace espalier::models {

/// What the layers of one forward pass share.
struct LayerContext {
  const engine::GemmBackend& gemm;
  engine::ThreadPool& pool;
  const engine::RopeTable& rope;
  BatchAttention& attention;
  Workspace& workspace;
  StageSeconds& seconds;
  std::span<const uint32_t> positions;         // (C)
  std::span<const uint32_t> wanted_rows;       // (W)
  std::span<const uint32_t> wanted_positions;  // (W)
  size_t block_rows;                           // B
  /// Called after each block. False: the pass is to be abandoned.
  std::function<bool()> pause;
};

class DecoderLayer {
 public:
  DecoderLayer(const ModelConfig& config, LayerWeights weights);

  /// hidden (C × H) becomes the layer's output. Not for the last layer. False: abandoned.
  bool forward(const LayerContext& context, engine::MutMatView hidden) const;

  /// wanted (W × H) becomes the layer's output for the wanted rows: keys and values are computed
  /// for all rows, everything else for those alone. For the last layer. False: abandoned.
  bool forward_wanted(const LayerContext& context, engine::ConstMatView hidden,
                      engine::MutMatView wanted) const;

 private:
  /// Which of the fused products a block needs.
  enum class Parts { kAll, kKeysAndValues, kQueries };

  void project(const LayerContext& context, engine::ConstMatView hidden,
               std::span<const uint32_t> positions, Parts parts, engine::Activations queries,
               engine::Activations keys, engine::Activations values) const;
  void norm_and_rotate(const LayerContext& context, size_t position, std::span<const float> norm,
                       std::span<float> heads) const;
  static void add_bias(const LayerContext& context, std::span<const float> bias,
                       engine::MutMatView hidden);
  void add_attention(const LayerContext& context, engine::Activations attended,
                     engine::MutMatView hidden) const;
  void add_mlp(const LayerContext& context, engine::MutMatView hidden) const;

  LayerWeights weights_;
  size_t head_dim_, query_width_, kv_width_, intermediate_size_;
  float eps_;
  engine::ActivationFunction activation_;
};

}  // namespace espalier::models
