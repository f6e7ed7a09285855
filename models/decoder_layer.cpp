#include "models/decoder_layer.h"

#include <algorithm>
#include <utility>

#include "models/row_blocks.h"

namespace espalier::models {

using engine::ConstMatView;
using engine::MutMatView;

DecoderLayer::DecoderLayer(const ModelConfig& config, LayerWeights weights)
    : weights_(std::move(weights)),
      head_dim_(config.head_dim),
      query_width_(config.query_heads * config.head_dim),
      kv_width_(config.kv_heads * config.head_dim),
      intermediate_size_(config.intermediate_size),
      eps_(config.rms_norm_eps) {}

void DecoderLayer::forward(const LayerContext& context, MutMatView hidden) const {
  Workspace& workspace = context.workspace;
  const MutMatView qkv = workspace.qkv.shaped(hidden.rows, query_width_ + 2 * kv_width_);
  const MutMatView queries = qkv.col_range(0, query_width_);
  const MutMatView keys = qkv.col_range(query_width_, kv_width_);
  const MutMatView values = qkv.col_range(query_width_ + kv_width_, kv_width_);
  const MutMatView attended = workspace.attended.shaped(hidden.rows, query_width_);

  project(context, hidden, *weights_.query_key_value, qkv);
  norm_and_rotate(context, context.positions, weights_.query_norm, queries);
  norm_and_rotate(context, context.positions, weights_.key_norm, keys);
  context.attention.attend_all(queries, {keys.data, values.data, qkv.stride}, attended);
  add_attention_and_mlp(context, attended, hidden);
}

void DecoderLayer::forward_wanted(const LayerContext& context, ConstMatView hidden,
                                  MutMatView wanted) const {
  Workspace& workspace = context.workspace;
  const MutMatView kv = workspace.qkv.shaped(hidden.rows, 2 * kv_width_);
  const MutMatView keys = kv.col_range(0, kv_width_);
  const MutMatView values = kv.col_range(kv_width_, kv_width_);
  const MutMatView queries = workspace.last_queries.shaped(wanted.rows, query_width_);
  const MutMatView attended = workspace.attended.shaped(wanted.rows, query_width_);

  project(context, hidden, *weights_.key_value, kv);
  norm_and_rotate(context, context.positions, weights_.key_norm, keys);
  for_each_row(context.pool, wanted.rows, [&](size_t k) {
    std::ranges::copy(hidden.row(context.wanted_rows[k]), wanted.row(k).begin());
  });
  project(context, wanted, *weights_.query, queries);
  norm_and_rotate(context, context.wanted_positions, weights_.query_norm, queries);
  context.attention.attend_wanted(queries, {keys.data, values.data, kv.stride}, attended);
  add_attention_and_mlp(context, attended, wanted);
}

/// out = norm(hidden) · weightsᵀ.
void DecoderLayer::project(const LayerContext& context, ConstMatView hidden,
                           const engine::PackedMatrix& weights, MutMatView out) const {
  for_each_block(hidden.rows, kRowBlock, [&](size_t first, size_t count) {
    const ConstMatView x = hidden.row_range(first, count);
    const MutMatView normed = context.workspace.normed.shaped(count, x.cols);
    for_each_row(context.pool, count, [&](size_t r) {
      engine::rms_norm(x.row(r), weights_.input_norm, eps_, normed.row(r));
    });
    context.gemm.multiply(context.pool, normed, weights, out.row_range(first, count));
  });
}

/// Each head on its own: RMSNorm, then rotation by the row's position.
void DecoderLayer::norm_and_rotate(const LayerContext& context, std::span<const uint32_t> positions,
                                   std::span<const float> norm, MutMatView heads) const {
  for_each_row(context.pool, heads.rows, [&](size_t r) {
    const std::span<const float> cos = context.rope.cos(positions[r]);
    const std::span<const float> sin = context.rope.sin(positions[r]);
    for (size_t begin = 0; begin < heads.cols; begin += head_dim_) {
      const std::span<float> head = heads.row(r).subspan(begin, head_dim_);
      engine::rms_norm(head, norm, eps_, head);
      engine::apply_rope(head, cos, sin);
    }
  });
}

/// hidden += attended · Woᵀ, then hidden += MLP(norm(hidden)). In blocks of rows, so that the MLP's
/// wide intermediate never exists for all of them.
void DecoderLayer::add_attention_and_mlp(const LayerContext& context, ConstMatView attended,
                                         MutMatView hidden) const {
  const engine::GemmBackend& gemm = context.gemm;
  engine::ThreadPool& pool = context.pool;
  Workspace& workspace = context.workspace;
  for_each_block(hidden.rows, kRowBlock, [&](size_t first, size_t count) {
    const MutMatView x = hidden.row_range(first, count);
    const MutMatView projected = workspace.projected.shaped(count, x.cols);
    const MutMatView normed = workspace.normed.shaped(count, x.cols);
    const MutMatView gate_up = workspace.gate_up.shaped(count, 2 * intermediate_size_);
    const MutMatView activated = workspace.activated.shaped(count, intermediate_size_);

    gemm.multiply(pool, attended.row_range(first, count), *weights_.output, projected);
    for_each_row(pool, count, [&](size_t r) {
      engine::add(x.row(r), projected.row(r));
      engine::rms_norm(x.row(r), weights_.post_attention_norm, eps_, normed.row(r));
    });
    gemm.multiply(pool, normed, *weights_.gate_up, gate_up);
    for_each_row(pool, count, [&](size_t r) { engine::swiglu(gate_up.row(r), activated.row(r)); });
    gemm.multiply(pool, activated, *weights_.down, projected);
    for_each_row(pool, count, [&](size_t r) { engine::add(x.row(r), projected.row(r)); });
  });
}

}  // namespace espalier::models
