// Causal attention along a prefix trie, in compact rows, without ever leaving them.
//
// Key row j is visible to query row i exactly when j <= i < subtree_end(node of j): the keys of a
// query are its path from the root. Memory grows with rows, never with rows².
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "engine/activations.h"
#include "engine/batch_plan.h"
#include "engine/cpu_features.h"
#include "engine/thread_pool.h"

namespace espalier::engine {

struct AttentionShape {
  size_t query_heads = 0;
  size_t kv_heads =
      0;  // divides query_heads; query head h reads KV head h / (query_heads / kv_heads)
  size_t head_dim = 0;
};

/// Where keys and values of compact rows are: row r of KV head h starts r · row_stride bytes +
/// h · head_dim elements after `keys` (and likewise for values), on a multiple of 64 bytes when
/// head_dim elements are one.
struct KvSpan {
  NumberFormat format = NumberFormat::kF32;  // or kBf16
  const std::byte* keys = nullptr;
  const std::byte* values = nullptr;
  size_t row_stride = 0;  // in bytes
};

/// The trie of a batch as attention reads it: built once a batch, used by every layer.
struct TrieView {
  std::span<const TrieNode> nodes;        // preorder; roots are at position 0
  std::span<const uint32_t> node_of_row;  // (C)
};

/// Per-thread memory of trie_attention(), kept from call to call so that a batch allocates nothing
/// once the largest has been seen.
class AttentionScratch {
 public:
  AttentionScratch();
  ~AttentionScratch();
  AttentionScratch(AttentionScratch&&) noexcept;
  AttentionScratch& operator=(AttentionScratch&&) noexcept;

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// out row k = attention of query row k, whose compact row is `query_rows[k]` (sorted, unique),
/// over the keys that it may see: softmax(q · kᵀ / sqrt(head_dim)) · v, per head, grouped-query.
/// `queries` and `out`: (query_rows.size() × query_heads · head_dim), both of kv.format; they must
/// not overlap. In kBf16, products are of bf16 numbers, sums and softmax in f32, and the weights of
/// the softmax are rounded to bf16 before they multiply values (and summed before).
///
/// A row's result depends, bit for bit, on its path in the trie alone: not on other rows, the dedup
/// mode or the number of threads. (Inputs must be finite: an infinite value may reach rows before
/// it in its own text, though never another text.) Bits differ between instruction sets; AVX-512
/// BF16 and AMX flush subnormal numbers to zero. Calls that share a scratch must not overlap.
/// Throws std::invalid_argument for shapes and formats that disagree (head_dim is even in kBf16),
/// and std::bad_alloc.
void trie_attention(ThreadPool& pool, const AttentionShape& shape, const TrieView& trie,
                    std::span<const uint32_t> query_rows, ConstActivations queries,
                    const KvSpan& kv, Activations out, AttentionScratch& scratch);

/// The same with the loops for `isa`, which must be at most detected_isa().
void trie_attention_with(Isa isa, ThreadPool& pool, const AttentionShape& shape,
                         const TrieView& trie, std::span<const uint32_t> query_rows,
                         ConstActivations queries, const KvSpan& kv, Activations out,
                         AttentionScratch& scratch);

}  // namespace espalier::engine
