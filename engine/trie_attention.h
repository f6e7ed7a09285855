// Causal attention along a prefix trie, in compact rows, without ever leaving them.
//
// Key row j is visible to query row i exactly when j <= i < subtree_end(node of j): the keys of a
// query are its path from the root. Memory grows with rows, never with rows².
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/batch_plan.h"
#include "engine/mat_view.h"
#include "engine/thread_pool.h"

namespace espalier::engine {

struct AttentionShape {
  size_t query_heads = 0;
  size_t kv_heads =
      0;  // divides query_heads; query head h reads KV head h / (query_heads / kv_heads)
  size_t head_dim = 0;
};

/// Where keys and values of compact rows are: row r of KV head h starts at
/// keys + r · row_stride + h · head_dim (and likewise for values).
struct KvSpan {
  const float* keys = nullptr;
  const float* values = nullptr;
  size_t row_stride = 0;
};

/// The trie of a batch as attention reads it: built once a batch, used by every layer.
struct TrieView {
  std::span<const TrieNode> nodes;        // preorder
  std::span<const uint32_t> node_of_row;  // (C)
};

/// out row k = attention of query row k, whose compact row is `query_rows[k]` (sorted, unique),
/// over the keys that it may see: softmax(q · kᵀ / sqrt(head_dim)) · v, per head, grouped-query.
/// `queries` and `out`: (query_rows.size() × query_heads · head_dim); they must not overlap.
/// Throws std::bad_alloc.
void trie_attention(ThreadPool& pool, const AttentionShape& shape, const TrieView& trie,
                    std::span<const uint32_t> query_rows, ConstMatView queries, const KvSpan& kv,
                    MutMatView out);

}  // namespace espalier::engine
