// The forward pass of a causal decoder over a batch plan: token embeddings, layers, final norm.
//
// Thread contract: as engine::ForwardPass, one run() at a time. Two objects may share their
// weights; one may run while the other is inside its progress callback (on the same thread: they
// share the pool).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/forward_pass.h"
#include "engine/gemm.h"
#include "engine/row_kernels.h"
#include "engine/thread_pool.h"
#include "models/attention_modes.h"
#include "models/decoder_layer.h"
#include "models/decoder_weights.h"
#include "models/model_config.h"
#include "models/stage_seconds.h"
#include "models/workspace.h"

namespace espalier::models {

/// What does not change from batch to batch. The source of its table of token embeddings must
/// outlive it.
struct DecoderGraph {
  DecoderGraph(const ModelConfig& config, DecoderWeights weights);

  ModelConfig config;
  WeightTensor token_embeddings;
  std::vector<DecoderLayer> layers;
  std::vector<float> final_norm;
};

class CausalDecoder final : public engine::ForwardPass {
 public:
  CausalDecoder(std::shared_ptr<const DecoderGraph> graph,
                std::shared_ptr<const engine::GemmBackend> gemm,
                std::shared_ptr<engine::ThreadPool> pool);

  /// Makes room for batches of up to `rows` compact rows, `wanted` of them wanted, in the modes
  /// other than kRadixMlp: they allocate nothing from then on. Larger ones do.
  void reserve(size_t rows, size_t wanted);

  size_t hidden_size() const override { return graph_->config.hidden_size; }

  /// See engine::ForwardPass. Throws std::out_of_range, with the values, for a malformed plan.
  engine::ConstMatView run(const engine::BatchPlan& plan,
                           const engine::PassProgress& progress) override;

  /// Over all passes so far.
  const StageSeconds& stage_seconds() const { return seconds_; }

 private:
  const engine::RopeTable& rope_up_to(size_t positions);
  bool run_layers(const LayerContext& context, engine::MutMatView hidden,
                  engine::MutMatView wanted);
  void look_up_embeddings(const std::vector<uint32_t>& token_ids, engine::MutMatView hidden);
  void finish(engine::MutMatView wanted);

  std::shared_ptr<const DecoderGraph> graph_;
  std::shared_ptr<const engine::GemmBackend> gemm_;
  std::shared_ptr<engine::ThreadPool> pool_;

  std::optional<engine::RopeTable> rope_;
  size_t rope_positions_ = 0;  // that rope_ has
  StageSeconds seconds_;
  Workspace workspace_;
  BatchAttention attention_;
  std::vector<uint32_t> wanted_positions_;  // (W)
};

/// The format in which attention works beside products in `gemm`: bf16 beside bf16, and beside int8
/// where the CPU multiplies bf16; f32 otherwise.
engine::NumberFormat attention_format(engine::NumberFormat gemm);

/// Bytes of a workspace that is reserved for batches of `rows` compact rows, `wanted` of them
/// wanted.
size_t workspace_bytes(const ModelConfig& config, const engine::GemmBackend& gemm, size_t rows,
                       size_t wanted);

}  // namespace espalier::models
