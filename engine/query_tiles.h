// Cuts the query rows of a trie attention into tiles that share most of their keys.
//
// Everything rests on one property of preorder: for rows a < b, the rows of b's path from the root
// that are not on a's path are exactly those greater than a. (A row j <= a on b's path has
// subtree_end(j) > b > a, so a sees it too.) Hence the keys of a tile, in row order, are the path
// of its first row followed by, for every further row, its path's rows beyond the row before it.
//
// Thread contract: stateless.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/trie_attention.h"

namespace espalier::engine {

/// Query rows [first, first + count) of `query_rows`, count >= 1.
struct QueryTile {
  size_t first = 0;
  size_t count = 0;
};

/// A row that is read as a key, and its position in the sequence.
struct PathRow {
  uint32_t row = 0;
  uint32_t position = 0;
};

/// Appends to `out` the rows of `row`'s path from its root that are >= `first_row`, ascending.
void append_path(const TrieView& trie, uint32_t row, uint32_t first_row, std::vector<PathRow>& out);

/// Cuts `query_rows` (sorted) greedily into tiles of at most `rows_max` rows. A row joins the tile
/// before it while the tile's keys beyond its first row's path number at most `extra_keys_max`; so
/// a tile's keys are at most the depth of its first row + extra_keys_max.
///
/// `tiles` is overwritten; its memory is kept.
///
/// Work: a query row looks at trie rows beyond the query row before it alone, so the nodes that all
/// of them look at number at most the trie's rows.
void cut_query_tiles(const TrieView& trie, std::span<const uint32_t> query_rows, size_t rows_max,
                     size_t extra_keys_max, std::vector<QueryTile>& tiles);

}  // namespace espalier::engine
