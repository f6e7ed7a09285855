#include "models/decoder_layer.h"

#include <algorithm>
#include <utility>

#include "models/row_blocks.h"

namespace espalier::models {

using engine::Activations;
using engine::ConstMatView;
using engine::Into;
using engine::MutMatView;

DecoderLayer::DecoderLayer(const ModelConfig& config, LayerWeights weights)
    : weights_(std::move(weights)),
      head_dim_(config.head_dim),
      query_width_(config.query_heads * config.head_dim),
      kv_width_(config.kv_heads * config.head_dim),
      intermediate_size_(config.intermediate_size),
      eps_(config.rms_norm_eps),
      activation_(config.activation) {}

bool DecoderLayer::forward(const LayerContext& context, MutMatView hidden) const {
  Workspace& workspace = context.workspace;
  const engine::NumberFormat format = context.attention.format();
  const Activations keys = workspace.keys.shaped(format, hidden.rows, kv_width_);
  const Activations values = workspace.values.shaped(format, hidden.rows, kv_width_);
  return for_each_block(hidden.rows, context.block_rows, [&](size_t first, size_t count) {
    const MutMatView x = hidden.row_range(first, count);
    const Activations queries = workspace.queries.shaped(format, count, query_width_);
    const Activations attended = workspace.attended.shaped(format, count, query_width_);
    project(context, x, context.positions.subspan(first, count), Parts::kAll, queries,
            keys.row_range(first, count), values.row_range(first, count));
    context.attention.attend_rows(first, queries, keys, values, attended);
    add_attention(context, attended, x);
    add_mlp(context, x);
    return context.pause();
  });
}

bool DecoderLayer::forward_wanted(const LayerContext& context, ConstMatView hidden,
                                  MutMatView wanted) const {
  Workspace& workspace = context.workspace;
  const engine::NumberFormat format = context.attention.format();
  const Activations keys = workspace.keys.shaped(format, hidden.rows, kv_width_);
  const Activations values = workspace.values.shaped(format, hidden.rows, kv_width_);
  const bool all = for_each_block(hidden.rows, context.block_rows, [&](size_t first, size_t count) {
    project(context, hidden.row_range(first, count), context.positions.subspan(first, count),
            Parts::kKeysAndValues, {}, keys.row_range(first, count),
            values.row_range(first, count));
    return context.pause();
  });
  if (!all) return false;
  return for_each_block(wanted.rows, context.block_rows, [&](size_t first, size_t count) {
    const MutMatView x = wanted.row_range(first, count);
    const Activations queries = workspace.queries.shaped(format, count, query_width_);
    const Activations attended = workspace.attended.shaped(format, count, query_width_);
    for_each_row(context.pool, count, [&](size_t k) {
      std::ranges::copy(hidden.row(context.wanted_rows[first + k]), x.row(k).begin());
    });
    project(context, x, context.wanted_positions.subspan(first, count), Parts::kQueries, queries,
            {}, {});
    context.attention.attend_wanted(first, queries, keys, values, attended);
    add_attention(context, attended, x);
    add_mlp(context, x);
    return context.pause();
  });
}

/// Queries, keys and values of norm(hidden), those of `parts`: one product, then each head on its
/// own, into the format that attention reads.
void DecoderLayer::project(const LayerContext& context, ConstMatView hidden,
                           std::span<const uint32_t> positions, Parts parts, Activations queries,
                           Activations keys, Activations values) const {
  const bool with_queries = parts != Parts::kKeysAndValues;
  const bool with_keys = parts != Parts::kQueries;
  const size_t first_output = with_queries ? 0 : query_width_;
  const size_t outputs = (with_queries ? query_width_ : 0) + (with_keys ? 2 * kv_width_ : 0);
  const Activations normed =
      context.workspace.normed.shaped(context.gemm.format(), hidden.rows, hidden.cols);
  const MutMatView qkv = context.workspace.qkv.shaped(hidden.rows, outputs);
  {
    const StageClock clock(context.seconds.rows);
    for_each_row(context.pool, hidden.rows, [&](size_t r) {
      engine::rms_norm(hidden.row(r), weights_.input_norm, eps_, normed, r);
    });
  }
  {
    const StageClock clock(context.seconds.gemm);
    context.gemm.multiply(context.pool, normed, *weights_.query_key_value, first_output, qkv,
                          Into::kStore);
  }
  const StageClock clock(context.seconds.rows);
  std::span<const float> bias = weights_.query_key_value_bias;
  if (!bias.empty()) bias = bias.subspan(first_output, outputs);
  for_each_row(context.pool, hidden.rows, [&](size_t r) {
    std::span<float> row = qkv.row(r);
    if (!bias.empty()) engine::add(row, bias);
    if (with_queries) {
      norm_and_rotate(context, positions[r], weights_.query_norm, row.first(query_width_));
      engine::write_row(row.first(query_width_), queries, r);
      row = row.subspan(query_width_);
    }
    if (with_keys) {
      norm_and_rotate(context, positions[r], weights_.key_norm, row.first(kv_width_));
      engine::write_row(row.first(kv_width_), keys, r);
      engine::write_row(row.subspan(kv_width_), values, r);
    }
  });
}

/// Each head on its own: RMSNorm where the family has it, then rotation by the row's position.
void DecoderLayer::norm_and_rotate(const LayerContext& context, size_t position,
                                   std::span<const float> norm, std::span<float> heads) const {
  const std::span<const float> cos = context.rope.cos(position);
  const std::span<const float> sin = context.rope.sin(position);
  for (size_t begin = 0; begin < heads.size(); begin += head_dim_) {
    const std::span<float> head = heads.subspan(begin, head_dim_);
    if (!norm.empty()) engine::rms_norm(head, norm, eps_, head);
    engine::apply_rope(head, cos, sin);
  }
}

/// hidden += bias in every row; nothing where there is none.
void DecoderLayer::add_bias(const LayerContext& context, std::span<const float> bias,
                            MutMatView hidden) {
  if (bias.empty()) return;
  const StageClock clock(context.seconds.rows);
  for_each_row(context.pool, hidden.rows, [&](size_t r) { engine::add(hidden.row(r), bias); });
}

/// hidden += attended · Woᵀ + bias.
void DecoderLayer::add_attention(const LayerContext& context, Activations attended,
                                 MutMatView hidden) const {
  Activations x = attended;
  {
    const StageClock clock(context.seconds.rows);
    if (attended.format == context.gemm.format()) {
      if (x.has_padding()) {
        for_each_row(context.pool, x.rows, [&](size_t r) { engine::zero_padding(x, r); });
      }
    } else {
      x = context.workspace.quantised.shaped(context.gemm.format(), attended.rows, attended.cols);
      for_each_row(context.pool, x.rows, [&](size_t r) { engine::write_row(attended, r, x, r); });
    }
  }
  {
    const StageClock clock(context.seconds.gemm);
    context.gemm.multiply(context.pool, x, *weights_.output, 0, hidden, Into::kAdd);
  }
  add_bias(context, weights_.output_bias, hidden);
}

/// hidden += MLP(norm(hidden)).
void DecoderLayer::add_mlp(const LayerContext& context, MutMatView hidden) const {
  const engine::GemmBackend& gemm = context.gemm;
  Workspace& workspace = context.workspace;
  const Activations normed = workspace.normed.shaped(gemm.format(), hidden.rows, hidden.cols);
  const Activations activated =
      workspace.activated.shaped(gemm.format(), hidden.rows, intermediate_size_);
  const size_t scratch = gemm.gated_scratch(hidden.rows, intermediate_size_);
  {
    const StageClock clock(context.seconds.rows);
    for_each_row(context.pool, hidden.rows, [&](size_t r) {
      engine::rms_norm(hidden.row(r), weights_.post_attention_norm, eps_, normed, r);
    });
  }
  {
    const StageClock clock(context.seconds.gemm);
    gemm.multiply_gated(context.pool, normed, *weights_.gate_up,
                        {activation_, weights_.gate_up_bias}, activated,
                        {workspace.gated_scratch.shaped(1, scratch).data, scratch});
    gemm.multiply(context.pool, activated, *weights_.down, 0, hidden, Into::kAdd);
  }
  add_bias(context, weights_.down_bias, hidden);
}

}  // namespace espalier::models
