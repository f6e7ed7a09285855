#include "server/debug/trie_outline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "server/observe/batch_closed_name.h"

namespace espalier::server {
namespace {

using engine::TrieNode;

size_t subtree_rows(const TrieNode& node) { return node.subtree_end - node.begin; }

/// Of each node, how many sequences end in it or, with `below`, in its subtree.
std::vector<uint32_t> count_ends(const RecordedTrie& trie, bool below) {
  std::vector<uint32_t> counts(trie.nodes.size());
  for (const auto& end : trie.ends) ++counts[end.node];
  if (!below) return counts;
  // Children come after their parents.
  for (size_t n = trie.nodes.size(); n-- > 0;)
    if (trie.nodes[n].parent != engine::kNoParent) counts[trie.nodes[n].parent] += counts[n];
  return counts;
}

std::vector<uint32_t> depths_of(const std::vector<TrieNode>& nodes) {
  std::vector<uint32_t> depths(nodes.size());
  for (size_t n = 0; n < nodes.size(); ++n)
    if (nodes[n].parent != engine::kNoParent) depths[n] = depths[nodes[n].parent] + 1;
  return depths;
}

/// Which nodes are shown. A parent's subtree is larger than its children's, so those with the
/// largest subtrees include the parents of all.
std::vector<bool> choose_largest(const std::vector<TrieNode>& nodes, size_t nodes_max) {
  std::vector<uint32_t> order(nodes.size());
  std::iota(order.begin(), order.end(), 0);
  const size_t count = std::min(nodes_max, nodes.size());
  const auto larger = [&](uint32_t a, uint32_t b) {
    const size_t rows_a = subtree_rows(nodes[a]);
    const size_t rows_b = subtree_rows(nodes[b]);
    return rows_a != rows_b ? rows_a > rows_b : a < b;
  };
  std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                   larger);
  std::vector<bool> shown(nodes.size());
  for (size_t i = 0; i < count; ++i) shown[order[i]] = true;
  return shown;
}

}  // namespace

TrieOutline outline_of(const RecordedTrie& trie, size_t nodes_max, size_t depth_max) {
  constexpr size_t kHidden = SIZE_MAX;
  TrieOutline outline;
  outline.all_nodes = trie.nodes.size();
  const auto ends = count_ends(trie, false);
  const auto sequences = count_ends(trie, true);
  const auto depths = depths_of(trie.nodes);
  const auto shown = choose_largest(trie.nodes, nodes_max);
  // Where each node is in the outline; hidden ones: the shown ancestor that they are counted for.
  std::vector<size_t> place(trie.nodes.size(), kHidden);
  for (size_t n = 0; n < trie.nodes.size(); ++n) {
    const TrieNode& node = trie.nodes[n];
    const bool root = node.parent == engine::kNoParent;
    if (shown[n] && depths[n] <= depth_max) {
      place[n] = outline.nodes.size();
      outline.nodes.push_back({node, depths[n], ends[n], sequences[n]});
    } else if (root) {
      ++outline.hidden_roots;
      outline.hidden_root_rows += subtree_rows(node);
    } else if (place[n] = place[node.parent]; place[n] != kHidden) {
      OutlineNode& ancestor = outline.nodes[place[n]];
      ++ancestor.hidden_nodes;
      ancestor.hidden_rows += node.end - node.begin;
    }
  }
  return outline;
}

std::string headline_of(const RecordedTrie& trie) {
  const RecordedBatch& batch = trie.batch;
  if (batch.number == 0) return "no batch has run yet";
  const double rows = static_cast<double>(std::max<size_t>(1, batch.compact_rows));
  return fmt::format(
      "batch {}{}: {} sequences, {} tokens in {} rows ({:.1f} tokens a row), {} nodes, closed by "
      "{}",
      batch.number, batch.interlude ? " (interlude)" : "", batch.sequences, batch.full_rows,
      batch.compact_rows, static_cast<double>(batch.full_rows) / rows, trie.nodes.size(),
      name_of(batch.closed));
}

}  // namespace espalier::server
