// The forward pass of a causal decoder over a batch plan: token embeddings, layers, final norm.
//
// Thread contract: as engine::ForwardPass, one run() at a time.
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
#include "models/workspace.h"

namespace espalier::models {

class CausalDecoder final : public engine::ForwardPass {
 public:
  /// `weights` views the table of token embeddings; its file must outlive this object.
  CausalDecoder(const ModelConfig& config, DecoderWeights weights,
                std::shared_ptr<const engine::GemmBackend> gemm,
                std::shared_ptr<engine::ThreadPool> pool);

  size_t hidden_size() const override { return config_.hidden_size; }

  /// See engine::ForwardPass. Throws std::out_of_range, with the values, for a malformed plan.
  engine::ConstMatView run(const engine::BatchPlan& plan,
                           const engine::LayerProgress& progress) override;

 private:
  const engine::RopeTable& rope_up_to(const std::vector<uint32_t>& positions);
  void look_up_embeddings(const std::vector<uint32_t>& token_ids, engine::MutMatView hidden);
  void finish(engine::MutMatView wanted);

  ModelConfig config_;
  engine::TensorView token_embeddings_;
  std::vector<DecoderLayer> layers_;
  std::vector<float> final_norm_;
  std::shared_ptr<const engine::GemmBackend> gemm_;
  std::shared_ptr<engine::ThreadPool> pool_;

  std::optional<engine::RopeTable> rope_;
  size_t rope_positions_ = 0;  // that rope_ has
  Workspace workspace_;
  BatchAttention attention_;
  std::vector<uint32_t> wanted_positions_;  // (W)
};

}  // namespace espalier::models
