#include "models/attention_modes.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "models/row_blocks.h"

namespace espalier::models {

using engine::Activations;
using engine::ConstActivations;
using engine::TrieNode;

namespace {

void copy_row(ConstActivations from, size_t from_row, Activations to, size_t to_row) {
  std::memcpy(to.row(to_row), from.row(from_row), from.cols * bytes_of(from.format));
}

}  // namespace

BatchAttention::BatchAttention(const engine::AttentionShape& shape, engine::NumberFormat format,
                               engine::ThreadPool& pool, Workspace& workspace,
                               StageSeconds& seconds)
    : shape_(shape), format_(format), pool_(pool), workspace_(workspace), seconds_(seconds) {}

void BatchAttention::reserve(size_t rows) {
  node_of_row_.reserve(rows);
  all_rows_.reserve(rows);
}

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

void BatchAttention::attend_rows(size_t first, ConstActivations queries, ConstActivations keys,
                                 ConstActivations values, Activations out) {
  attend(Rows(all_rows_).subspan(first, queries.rows), queries, keys, values, out);
}

void BatchAttention::attend_wanted(size_t first, ConstActivations queries, ConstActivations keys,
                                   ConstActivations values, Activations out) {
  attend(Rows(plan_->wanted_rows).subspan(first, queries.rows), queries, keys, values, out);
}

void BatchAttention::attend(Rows query_rows, ConstActivations queries, ConstActivations keys,
                            ConstActivations values, Activations out) {
  if (plan_->dedup == engine::DedupMode::kRadixMlp) {
    attend_per_sequence(query_rows, queries, keys, values, out);
  } else {
    const StageClock clock(seconds_.attention);
    engine::trie_attention(pool_, shape_, {plan_->nodes, node_of_row_}, query_rows, queries,
                           {format_, keys.data, values.data, keys.stride}, out, scratch_);
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

void BatchAttention::attend_per_sequence(Rows query_rows, ConstActivations queries,
                                         ConstActivations keys, ConstActivations values,
                                         Activations out) {
  for (size_t s = 0; s + 1 < plan_->sequence_offsets.size(); ++s) {
    const size_t first = plan_->sequence_offsets[s];
    const size_t length = plan_->sequence_offsets[s + 1] - first;
    choose_queries(query_rows, first, length);
    if (sequence_rows_.empty()) continue;
    const size_t count = sequence_rows_.size();
    const Activations full_keys = workspace_.sequence_keys.shaped(format_, length, keys.cols);
    const Activations full_values = workspace_.sequence_values.shaped(format_, length, keys.cols);
    const Activations full_queries =
        workspace_.sequence_queries.shaped(format_, count, queries.cols);
    const Activations attended = workspace_.sequence_attended.shaped(format_, count, out.cols);

    {  // Scatter: compact rows to the full rows of this sequence.
      const StageClock clock(seconds_.gather_scatter);
      for_each_row(pool_, length, [&](size_t i) {
        const size_t row = plan_->scatter[first + i];
        copy_row(keys, row, full_keys, i);
        copy_row(values, row, full_values, i);
      });
      for_each_row(pool_, count,
                   [&](size_t k) { copy_row(queries, query_of_[k], full_queries, k); });
    }
    {  // A sequence on its own is a trie of one node.
      const StageClock clock(seconds_.attention);
      const auto end = static_cast<uint32_t>(length);
      const TrieNode chain{.begin = 0, .end = end, .subtree_end = end};
      chain_nodes_.assign(length, 0);
      engine::trie_attention(
          pool_, shape_, {{&chain, 1}, chain_nodes_}, sequence_rows_, full_queries,
          {format_, full_keys.data, full_values.data, full_keys.stride}, attended, scratch_);
    }
    // Gather: a compact row takes the result of the full row that owns it.
    const StageClock clock(seconds_.gather_scatter);
    for_each_row(pool_, count, [&](size_t k) {
      const size_t full_row = first + sequence_rows_[k];
      if (plan_->gather[plan_->scatter[full_row]] != full_row) return;
      copy_row(attended, k, out, query_of_[k]);
    });
  }
}

}  // namespace espalier::models
