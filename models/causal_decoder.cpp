#include "models/causal_decoder.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "models/plan_check.h"
#include "models/row_blocks.h"

namespace espalier::models {

using engine::ConstMatView;
using engine::MutMatView;

CausalDecoder::CausalDecoder(const ModelConfig& config, DecoderWeights weights,
                             std::shared_ptr<const engine::GemmBackend> gemm,
                             std::shared_ptr<engine::ThreadPool> pool)
    : config_(config),
      token_embeddings_(std::move(weights.token_embeddings)),
      final_norm_(std::move(weights.final_norm)),
      gemm_(std::move(gemm)),
      pool_(std::move(pool)),
      attention_({config.query_heads, config.kv_heads, config.head_dim}, *pool_, workspace_) {
  layers_.reserve(weights.layers.size());
  for (LayerWeights& layer : weights.layers) layers_.emplace_back(config, std::move(layer));
}

ConstMatView CausalDecoder::run(const engine::BatchPlan& plan,
                                const engine::LayerProgress& progress) {
  check_plan(plan, config_.vocab_size, config_.max_positions);
  if (plan.wanted_rows.empty()) return {nullptr, 0, config_.hidden_size};

  attention_.prepare(plan);
  wanted_positions_.clear();
  for (const uint32_t row : plan.wanted_rows) wanted_positions_.push_back(plan.positions[row]);
  const LayerContext context{.gemm = *gemm_,
                             .pool = *pool_,
                             .rope = rope_up_to(plan.positions),
                             .attention = attention_,
                             .workspace = workspace_,
                             .positions = plan.positions,
                             .wanted_rows = plan.wanted_rows,
                             .wanted_positions = wanted_positions_};
  const MutMatView hidden = workspace_.hidden.shaped(plan.compact_rows(), config_.hidden_size);
  const MutMatView wanted = workspace_.wanted.shaped(plan.wanted_rows.size(), config_.hidden_size);

  look_up_embeddings(plan.token_ids, hidden);
  for (size_t layer = 0; layer + 1 < layers_.size(); ++layer) {
    layers_[layer].forward(context, hidden);
    if (progress) progress(layer + 1, layers_.size());
  }
  layers_.back().forward_wanted(context, hidden, wanted);
  if (progress) progress(layers_.size(), layers_.size());
  finish(wanted);
  return wanted;
}

/// The table grows with the longest sequence seen, by doubling: a model may allow far more
/// positions than anybody sends.
const engine::RopeTable& CausalDecoder::rope_up_to(const std::vector<uint32_t>& positions) {
  constexpr size_t kFirstPositions = 1024;
  const size_t needed = size_t{1} + *std::max_element(positions.begin(), positions.end());
  if (needed > rope_positions_) {
    const size_t grown =
        std::min(std::max(kFirstPositions, std::bit_ceil(needed)), config_.max_positions);
    rope_.emplace(config_.head_dim, config_.rope_theta, grown);
    rope_positions_ = grown;
  }
  return *rope_;
}

void CausalDecoder::look_up_embeddings(const std::vector<uint32_t>& token_ids, MutMatView hidden) {
  for_each_row(*pool_, hidden.rows, [&](size_t r) {
    engine::convert_to_f32(token_embeddings_, token_ids[r] * hidden.cols, hidden.cols,
                           hidden.row(r).data());
  });
}

void CausalDecoder::finish(MutMatView wanted) {
  std::atomic<bool> finite = true;
  for_each_row(*pool_, wanted.rows, [&](size_t r) {
    const std::span<float> row = wanted.row(r);
    engine::rms_norm(row, final_norm_, config_.rms_norm_eps, row);
    if (!std::ranges::all_of(row, [](float x) { return std::isfinite(x); })) finite = false;
  });
  if (!finite) {
    throw std::runtime_error("the model's result is not finite (overflow, or damaged weights)");
  }
}

}  // namespace espalier::models
