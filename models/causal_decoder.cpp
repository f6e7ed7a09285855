#include "models/causal_decoder.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "engine/cpu_features.h"
#include "engine/rope_frequencies.h"
#include "models/plan_check.h"
#include "models/row_blocks.h"

namespace espalier::models {

using engine::ConstMatView;
using engine::MutMatView;
using engine::NumberFormat;

namespace {

size_t block_rows_of(const engine::BatchPlan& plan) {
  // RadixMLP's attention reads the queries of whole sequences, wherever their rows are.
  if (plan.dedup == engine::DedupMode::kRadixMlp) return plan.compact_rows();
  return plan.compact_rows() > kLongBatchRows ? kRowBlockOfLongBatches : kRowBlock;
}

}  // namespace

DecoderGraph::DecoderGraph(const ModelConfig& config_in, DecoderWeights weights)
    : config(config_in),
      token_embeddings(std::move(weights.token_embeddings)),
      final_norm(std::move(weights.final_norm)) {
  layers.reserve(weights.layers.size());
  for (LayerWeights& layer : weights.layers) layers.emplace_back(config, std::move(layer));
}

CausalDecoder::CausalDecoder(std::shared_ptr<const DecoderGraph> graph,
                             std::shared_ptr<const engine::GemmBackend> gemm,
                             std::shared_ptr<engine::ThreadPool> pool)
    : graph_(std::move(graph)),
      gemm_(std::move(gemm)),
      pool_(std::move(pool)),
      attention_({graph_->config.query_heads, graph_->config.kv_heads, graph_->config.head_dim},
                 attention_format(gemm_->format()), *pool_, workspace_, seconds_) {}

void CausalDecoder::reserve(size_t rows, size_t wanted) {
  const ModelConfig& config = graph_->config;
  const size_t query_width = config.query_heads * config.head_dim;
  const size_t kv_width = config.kv_heads * config.head_dim;
  const size_t block = std::min(rows, kRowBlock);
  const NumberFormat format = gemm_->format();
  const NumberFormat attention = attention_.format();
  workspace_.hidden.shaped(rows, config.hidden_size);
  workspace_.keys.shaped(attention, rows, kv_width);
  workspace_.values.shaped(attention, rows, kv_width);
  workspace_.wanted.shaped(wanted, config.hidden_size);
  workspace_.normed.shaped(format, block, config.hidden_size);
  workspace_.qkv.shaped(block, query_width + 2 * kv_width);
  workspace_.queries.shaped(attention, block, query_width);
  workspace_.attended.shaped(attention, block, query_width);
  if (attention != format) workspace_.quantised.shaped(format, block, query_width);
  workspace_.activated.shaped(format, block, config.intermediate_size);
  workspace_.gated_scratch.shaped(1, gemm_->gated_scratch(block, config.intermediate_size));
  attention_.reserve(rows);
  wanted_positions_.reserve(wanted);
  rope_up_to(std::min(rows, config.max_positions));
}

ConstMatView CausalDecoder::run(const engine::BatchPlan& plan,
                                const engine::PassProgress& progress) {
  const ModelConfig& config = graph_->config;
  check_plan(plan, config.vocab_size, config.max_positions);
  if (plan.wanted_rows.empty()) return {nullptr, 0, config.hidden_size};

  attention_.prepare(plan);
  wanted_positions_.clear();
  for (const uint32_t row : plan.wanted_rows) wanted_positions_.push_back(plan.positions[row]);
  const size_t block_rows = block_rows_of(plan);
  const size_t blocks = block_count(plan.compact_rows(), block_rows);
  const size_t steps =
      graph_->layers.size() * blocks + block_count(plan.wanted_rows.size(), block_rows);
  size_t done = 0;
  const LayerContext context{
      .gemm = *gemm_,
      .pool = *pool_,
      .rope = rope_up_to(size_t{1} + *std::ranges::max_element(plan.positions)),
      .attention = attention_,
      .workspace = workspace_,
      .seconds = seconds_,
      .positions = plan.positions,
      .wanted_rows = plan.wanted_rows,
      .wanted_positions = wanted_positions_,
      .block_rows = block_rows,
      .pause = [&] { return !progress || progress(++done, steps); }};
  const MutMatView hidden = workspace_.hidden.shaped(plan.compact_rows(), config.hidden_size);
  const MutMatView wanted = workspace_.wanted.shaped(plan.wanted_rows.size(), config.hidden_size);
  look_up_embeddings(plan.token_ids, hidden);
  if (!run_layers(context, hidden, wanted)) return {nullptr, 0, config.hidden_size};
  finish(wanted);
  return wanted;
}

/// False: abandoned.
bool CausalDecoder::run_layers(const LayerContext& context, MutMatView hidden, MutMatView wanted) {
  const std::vector<DecoderLayer>& layers = graph_->layers;
  for (size_t layer = 0; layer + 1 < layers.size(); ++layer) {
    if (!layers[layer].forward(context, hidden)) return false;
  }
  return layers.back().forward_wanted(context, hidden, wanted);
}

/// The table grows with the longest sequence seen, by doubling: a model may allow far more
/// positions than anybody sends.
const engine::RopeTable& CausalDecoder::rope_up_to(size_t positions) {
  constexpr size_t kFirstPositions = 1024;
  if (positions > rope_positions_) {
    const ModelConfig& config = graph_->config;
    const size_t grown =
        std::min(std::max(kFirstPositions, std::bit_ceil(positions)), config.max_positions);
    // Made beside the old one, which stays when there is no memory for it.
    rope_ = engine::RopeTable(
        engine::rope_frequencies(config.head_dim, config.rope_theta, config.rope_scaling),
        config.rope_scaling.attention_factor, grown);
    rope_positions_ = grown;
  }
  return *rope_;
}

void CausalDecoder::look_up_embeddings(const std::vector<uint32_t>& token_ids, MutMatView hidden) {
  const StageClock clock(seconds_.rows);
  for_each_row(*pool_, hidden.rows, [&](size_t r) {
    engine::convert_to_f32(graph_->token_embeddings.view, token_ids[r] * hidden.cols, hidden.cols,
                           hidden.row(r).data());
  });
}

void CausalDecoder::finish(MutMatView wanted) {
  const StageClock clock(seconds_.rows);
  std::atomic<bool> finite = true;
  for_each_row(*pool_, wanted.rows, [&](size_t r) {
    const std::span<float> row = wanted.row(r);
    engine::rms_norm(row, graph_->final_norm, graph_->config.rms_norm_eps, row);
    if (!std::ranges::all_of(row, [](float x) { return std::isfinite(x); })) finite = false;
  });
  if (!finite) {
    throw std::runtime_error("the model's result is not finite (overflow, or damaged weights)");
  }
}

NumberFormat attention_format(NumberFormat gemm) {
  if (gemm != NumberFormat::kInt8) return gemm;
  return engine::usable_isa() >= engine::Isa::kAvx512Bf16 ? NumberFormat::kBf16
                                                          : NumberFormat::kF32;
}

size_t workspace_bytes(const ModelConfig& config, const engine::GemmBackend& gemm, size_t rows,
                       size_t wanted) {
  const NumberFormat format = gemm.format();
  const NumberFormat attention = attention_format(format);
  const size_t query_width = config.query_heads * config.head_dim;
  const size_t kv_width = config.kv_heads * config.head_dim;
  const size_t block = std::min(rows, kRowBlock);
  const size_t per_row = config.hidden_size * sizeof(float) +
                         2 * engine::activation_stride(attention, kv_width) + 2 * sizeof(uint32_t);
  const size_t angles = std::min(rows, config.max_positions) * config.head_dim * sizeof(float);
  const size_t per_block_row =
      engine::activation_stride(format, config.hidden_size) +
      (query_width + 2 * kv_width) * sizeof(float) +
      2 * engine::activation_stride(attention, query_width) +
      (attention != format ? engine::activation_stride(format, query_width) : 0) +
      engine::activation_stride(format, config.intermediate_size);
  return rows * per_row + angles + wanted * config.hidden_size * sizeof(float) +
         block * per_block_row +
         gemm.gated_scratch(block, config.intermediate_size) * sizeof(float);
}

}  // namespace espalier::models
