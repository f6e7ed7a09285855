// The naive twin of engine::trie_attention: for each query the list of its keys, from parent to
// parent.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
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

/// Element `i` of a row of f32 or bf16.
inline double element(engine::NumberFormat format, const std::byte* row, size_t i) {
  uint32_t bits = 0;
  if (format == engine::NumberFormat::kF32) {
    std::memcpy(&bits, row + 4 * i, 4);
  } else {
    uint16_t upper = 0;
    std::memcpy(&upper, row + 2 * i, 2);
    bits = uint32_t{upper} << 16;
  }
  float value = 0;
  std::memcpy(&value, &bits, 4);
  return value;
}

/// softmax(q · kᵀ / sqrt(d)) · v for one head, in double and without any rounding to bf16: (d).
/// `query`: d elements of kv.format. With `magnitudes`, |v| takes the place of v: what a relative
/// error of the weights may amount to.
inline std::vector<double> attend(const std::byte* query, size_t head_dim, const engine::KvSpan& kv,
                                  size_t kv_head, std::span<const uint32_t> visible,
                                  bool magnitudes = false) {
  const auto element_of = [&](const std::byte* rows, uint32_t row, size_t i) {
    return element(kv.format, rows + row * kv.row_stride, kv_head * head_dim + i);
  };
  std::vector<double> weights;
  for (const uint32_t row : visible) {
    double product = 0;
    for (size_t i = 0; i < head_dim; ++i) {
      product += element(kv.format, query, i) * element_of(kv.keys, row, i);
    }
    weights.push_back(product / std::sqrt(static_cast<double>(head_dim)));
  }
  const double maximum = *std::max_element(weights.begin(), weights.end());
  double sum = 0;
  for (double& weight : weights) sum += weight = std::exp(weight - maximum);
  std::vector<double> out(head_dim);
  for (size_t k = 0; k < visible.size(); ++k) {
    for (size_t i = 0; i < head_dim; ++i) {
      const double value = element_of(kv.values, visible[k], i);
      out[i] += weights[k] / sum * (magnitudes ? std::abs(value) : value);
    }
  }
  return out;
}

/// (query_rows.size() × query_heads · head_dim), row-major.
inline std::vector<double> trie_attention(const engine::AttentionShape& shape,
                                          const engine::TrieView& trie,
                                          std::span<const uint32_t> query_rows,
                                          engine::ConstActivations queries,
                                          const engine::KvSpan& kv, bool magnitudes = false) {
  std::vector<double> out;
  for (size_t k = 0; k < query_rows.size(); ++k) {
    const std::vector<uint32_t> visible = visible_rows(trie, query_rows[k]);
    for (size_t head = 0; head < shape.query_heads; ++head) {
      const size_t kv_head = head / (shape.query_heads / shape.kv_heads);
      const engine::ConstActivations query =
          queries.col_range(head * shape.head_dim, shape.head_dim);
      const std::vector<double> attended =
          attend(query.row(k), shape.head_dim, kv, kv_head, visible, magnitudes);
      out.insert(out.end(), attended.begin(), attended.end());
    }
  }
  return out;
}

}  // namespace espalier::reference
