#include "engine/query_tiles.h"

#include <algorithm>

namespace espalier::engine {
namespace {

/// The rows of `row`'s path that are >= first_row, counted; stops once there are more than `limit`.
size_t count_path(const TrieView& trie, uint32_t row, uint32_t first_row, size_t limit) {
  size_t count = 0;
  uint32_t end = row + 1;
  for (uint32_t index = trie.node_of_row[row]; end > first_row && count <= limit;) {
    const TrieNode& node = trie.nodes[index];
    count += end - std::max(node.begin, first_row);
    if (node.parent == kNoParent) break;
    index = node.parent;
    end = trie.nodes[index].end;
  }
  return count;
}

}  // namespace

void append_path(const TrieView& trie, uint32_t row, uint32_t first_row,
                 std::vector<PathRow>& out) {
  const size_t appended = out.size();
  // Upwards, from the row to the root; turned round at the end.
  uint32_t end = row + 1;
  for (uint32_t index = trie.node_of_row[row]; end > first_row;) {
    const TrieNode& node = trie.nodes[index];
    const uint32_t begin = std::max(node.begin, first_row);
    for (uint32_t r = end; r > begin; --r) {
      out.push_back({.row = r - 1, .position = node.position + (r - 1 - node.begin)});
    }
    if (node.parent == kNoParent) break;
    index = node.parent;
    end = trie.nodes[index].end;
  }
  std::reverse(out.begin() + static_cast<std::ptrdiff_t>(appended), out.end());
}

void cut_query_tiles(const TrieView& trie, std::span<const uint32_t> query_rows, size_t rows_max,
                     size_t extra_keys_max, std::vector<QueryTile>& tiles) {
  tiles.clear();
  size_t extra_keys = 0;  // of the last tile
  for (size_t i = 0; i < query_rows.size(); ++i) {
    if (!tiles.empty() && tiles.back().count < rows_max) {
      const size_t spare = extra_keys_max - extra_keys;
      const size_t added = count_path(trie, query_rows[i], query_rows[i - 1] + 1, spare);
      if (added <= spare) {
        extra_keys += added;
        ++tiles.back().count;
        continue;
      }
    }
    tiles.push_back({.first = i, .count = 1});
    extra_keys = 0;
  }
}

}  // namespace espalier::engine
