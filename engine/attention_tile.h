// Attention of one tile of query rows with one KV head: which keys meet which queries.
//
// The tile's queries, rows × the query heads that share the KV head, are *lanes*:
// lane = row of the tile · heads + head. Keys are taken by their position in the sequence, in
// ranges [t·T, (t+1)·T), and never by node: which keys share a step of the online softmax, and
// which slot of it a key has, then depends on the text alone, not on its neighbours in the batch.
//
// In a range, the tile's rows fall into *chains*: neighbouring rows whose paths through the range
// are all beginnings of the longest, the last row's. The keys of a chain are that path, at most T
// of them, slot s being position t·T + s; each lane sees a number of leading slots. So a row may
// compute slots that only later rows of its chain see, which count exactly 0, but never a slot that
// holds another text's key.
//
// Cost. The last row of a chain sees all of its keys, and another row misses some only in the range
// in which it ends. So beyond the keys that are seen no row computes more than T products, whatever
// the shape of the trie. Per range a tile looks at each of its rows once.
//
// Thread contract: a TileScratch belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/aligned_buffer.h"
#include "engine/attention_loops.h"
#include "engine/query_tiles.h"
#include "engine/trie_attention.h"

namespace espalier::engine {

/// What a thread works in; grows to the largest tile seen.
class TileScratch {
 public:
  /// For tiles of up to `rows` query rows with `heads` query heads a KV head.
  void reserve(size_t rows, size_t heads, size_t head_dim);

 private:
  friend class TileAttention;

  AlignedBuffer buffer_;  // what `tile_` points into
  AttentionTile tile_;

  // Of each row of the tile: the rows on its path that are not on the path of the row before it.
  std::vector<PathRow> own_;
  std::vector<size_t> own_begin_;   // (rows) where they begin in own_
  std::vector<uint32_t> branch_;    // (rows) position of the first of them
  std::vector<uint32_t> position_;  // (rows) position of the row itself, which is the last

  std::vector<uint32_t> slots_;            // (T) the key rows of one range
  std::vector<const std::byte*> keys_;     // (T)
  std::vector<const std::byte*> values_;   // (T)
  std::vector<const std::byte*> queries_;  // (lanes)
  std::vector<int32_t> visible_;           // (lanes)
};

/// One task.
class TileAttention {
 public:
  /// `rows`: the compact rows of the tile's queries, at most what `scratch` is reserved for.
  TileAttention(const AttentionLoops& loops, const AttentionShape& shape, const TrieView& trie,
                const KvSpan& kv, size_t kv_head, std::span<const uint32_t> rows,
                TileScratch& scratch);

  /// `queries` and `out`: the tile's rows × (heads · head_dim), this KV head's columns.
  void run(ConstActivations queries, Activations out);

 private:
  void prefetch_rows() const;
  void take_queries(ConstActivations queries);
  void list_paths();
  void attend_to_range(size_t begin, size_t end);
  bool begins_chain(size_t row, size_t end) const;
  void attend_to_chain(size_t first_row, size_t last_row, size_t begin, size_t end);

  const AttentionLoops& loops_;
  const TrieView& trie_;
  const KvSpan& kv_;
  std::span<const uint32_t> rows_;
  size_t head_bytes_;   // from one head to the next
  size_t head_offset_;  // of the KV head within a row, in bytes
  size_t heads_;        // query heads that share the KV head
  float scale_;         // of logits, times log2(e)
  TileScratch& scratch_;
};

}  // namespace espalier::engine
