#include "models/attention_modes.h"

#include <algorithm>
#include <numeric>

#include "models/row_blocks.h"

namespace espalier::models {

using engine::ConstMatView;
using engine::KvSpan;
using engine::MutMatView;
using engine::TrieNode;

BatchAttention::BatchAttention(const engine::AttentionShape& shape, engine::ThreadPool& pool,
                               Workspace& workspace)
    : shape_(shape), pool_(pool), workspace_(workspace) {}

void BatchAttention::prepare(const engine::BatchPlan& plan) {
  plan_ = &plan;
  node_of_row_.resize(plan.compact_rows());
  for (size_t n = 0; n < plan.nodes.size(); ++n) {
    const TrieNode& node = plan.nodes[n];
    std::fill(node_of_row_.begin() + node.begin, node_of_row_.begin() + node.end,
              static_cast<uint32_t>(n));
  }
  all_rows_.resize(plan.compact_rows());
  std::iota(all_rows_.begin(), all_rows_.end(), 0U);
}

void BatchAttention::attend_all(ConstMatView queries, const KvSpan& kv, MutMatView out) {
  attend(all_rows_, queries, kv, out);
}

void BatchAttention::attend_wanted(ConstMatView queries, const KvSpan& kv, MutMatView out) {
  attend(plan_->wanted_rows, queries, kv, out);
}

void BatchAttention::attend(Rows query_rows, ConstMatView queries, const KvSpan& kv,
                            MutMatView out) {
  if (plan_->dedup == engine::DedupMode::kRadixMlp) {
    attend_per_sequence(query_rows, queries, kv, out);
  } else {
    engine::trie_attention(pool_, shape_, {plan_->nodes, node_of_row_}, query_rows, queries, kv,
                           out);
  }
}

/// Which rows of the sequence at full rows [first, first + length) are queries: all of them in a
/// layer that computes every row, as published; in the last layer only those whose result is read.
void BatchAttention::choose_queries(Rows query_rows, size_t first, size_t length) {
  sequence_rows_.clear();
  query_of_.clear();
  const bool every_row = query_rows.size() == plan_->compact_rows();
  for (size_t i = 0; i < length; ++i) {
    const uint32_t row = plan_->scatter[first + i];
    const auto query = every_row ? query_rows.begin() + row
                                 : std::lower_bound(query_rows.begin(), query_rows.end(), row);
    const bool is_owner = plan_->gather[row] == first + i;
    if (!every_row && (!is_owner || query == query_rows.end() || *query != row)) continue;
    sequence_rows_.push_back(static_cast<uint32_t>(i));
    query_of_.push_back(static_cast<uint32_t>(query - query_rows.begin()));
  }
}

void BatchAttention::attend_per_sequence(Rows query_rows, ConstMatView queries, const KvSpan& kv,
                                         MutMatView out) {
  const size_t kv_width = shape_.kv_heads * shape_.head_dim;
  for (size_t s = 0; s + 1 < plan_->sequence_offsets.size(); ++s) {
    const size_t first = plan_->sequence_offsets[s];
    const size_t length = plan_->sequence_offsets[s + 1] - first;
    choose_queries(query_rows, first, length);
    if (sequence_rows_.empty()) continue;

    // Scatter: compact rows to the full rows of this sequence.
    const MutMatView keys = workspace_.sequence_keys.shaped(length, kv_width);
    const MutMatView values = workspace_.sequence_values.shaped(length, kv_width);
    for_each_row(pool_, length, [&](size_t i) {
      const size_t row = plan_->scatter[first + i];
      std::copy_n(kv.keys + row * kv.row_stride, kv_width, keys.row(i).data());
      std::copy_n(kv.values + row * kv.row_stride, kv_width, values.row(i).data());
    });
    const size_t count = sequence_rows_.size();
    const MutMatView sequence_queries = workspace_.sequence_queries.shaped(count, queries.cols);
    for_each_row(pool_, count, [&](size_t k) {
      std::ranges::copy(queries.row(query_of_[k]), sequence_queries.row(k).begin());
    });

    // A sequence on its own is a trie of one node.
    const auto end = static_cast<uint32_t>(length);
    const TrieNode chain{.begin = 0, .end = end, .subtree_end = end};
    chain_nodes_.assign(length, 0);
    const MutMatView attended = workspace_.sequence_attended.shaped(count, out.cols);
    engine::trie_attention(pool_, shape_, {{&chain, 1}, chain_nodes_}, sequence_rows_,
                           sequence_queries, {keys.data, values.data, keys.stride}, attended);

    // Gather: a compact row takes the result of the full row that owns it.
    for_each_row(pool_, count, [&](size_t k) {
      const size_t full_row = first + sequence_rows_[k];
      if (plan_->gather[plan_->scatter[full_row]] != full_row) return;
      std::ranges::copy(attended.row(k), out.row(query_of_[k]).begin());
    });
  }
}

}  // namespace espalier::models
