// The naive twin of engine::trie_attention: for each query the list of its keys, from parent to
// parent.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "engine/trie_attention.h"

namespace espalier::reference {

/// The rows that `row` may see: its own node's up to itself, and all of its ancestors'. Independent
/// of TrieNode::subtree_end.
inline std::vector<uint32_t> visible_rows(const engine::TrieView& trie, uint32_t row) {
  std::vector<uint32_t> visible;
  uint32_t node = trie.node_of_row[row];
  for (uint32_t j = trie.nodes[node].begin; j <= row; ++j) visible.push_back(j);
  while (trie.nodes[node].parent != engine::kNoParent) {
    node = trie.nodes[node].parent;
    for (uint32_t j = trie.nodes[node].begin; j < trie.nodes[node].end; ++j) visible.push_back(j);
  }
  return visible;
}

/// softmax(q · kᵀ / sqrt(d)) · v for one head, in double: (d).
inline std::vector<double> attend(std::span<const float> query, const engine::KvSpan& kv,
                                  size_t kv_head, std::span<const uint32_t> visible) {
  const size_t head_dim = query.size();
  const auto head_of = [&](const float* rows, uint32_t row) {
    return rows + row * kv.row_stride + kv_head * head_dim;
  };
  std::vector<double> weights;
  for (const uint32_t row : visible) {
    const float* const key = head_of(kv.keys, row);
    double product = 0;
    for (size_t i = 0; i < head_dim; ++i) product += double{query[i]} * key[i];
    weights.push_back(product / std::sqrt(static_cast<double>(head_dim)));
  }
  const double maximum = *std::max_element(weights.begin(), weights.end());
  double sum = 0;
  for (double& weight : weights) sum += weight = std::exp(weight - maximum);
  std::vector<double> out(head_dim);
  for (size_t k = 0; k < visible.size(); ++k) {
    const float* const value = head_of(kv.values, visible[k]);
    for (size_t i = 0; i < head_dim; ++i) out[i] += weights[k] / sum * value[i];
  }
  return out;
}

/// (query_rows.size() × query_heads · head_dim), row-major.
inline std::vector<double> trie_attention(const engine::AttentionShape& shape,
                                          const engine::TrieView& trie,
                                          std::span<const uint32_t> query_rows,
                                          engine::ConstMatView queries, const engine::KvSpan& kv) {
  std::vector<double> out;
  for (size_t k = 0; k < query_rows.size(); ++k) {
    const std::vector<uint32_t> visible = visible_rows(trie, query_rows[k]);
    for (size_t head = 0; head < shape.query_heads; ++head) {
      const size_t kv_head = head / (shape.query_heads / shape.kv_heads);
      const std::vector<double> attended = attend(
          queries.row(k).subspan(head * shape.head_dim, shape.head_dim), kv, kv_head, visible);
      out.insert(out.end(), attended.begin(), attended.end());
    }
  }
  return out;
}

}  // namespace espalier::reference
