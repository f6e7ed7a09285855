// Prefix tries of many shapes, as a planner would hand them over.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "engine/trie_attention.h"

namespace espalier::engine {

/// Owns what a TrieView refers to.
struct ExampleTrie {
  std::vector<TrieNode> nodes;
  std::vector<uint32_t> node_of_row;

  uint32_t rows() const { return static_cast<uint32_t>(node_of_row.size()); }
  TrieView view() const { return {nodes, node_of_row}; }

  /// Adds a node of `length` rows below `parent`, which must be the last node or one of its
  /// ancestors (or kNoParent): preorder. Returns its index.
  uint32_t add(uint32_t parent, uint32_t length) {
    TrieNode node;
    node.begin = rows();
    node.end = node.begin + length;
    node.subtree_end = node.end;
    node.parent = parent;
    if (parent != kNoParent) {
      node.position = nodes[parent].position + (nodes[parent].end - nodes[parent].begin);
    }
    for (uint32_t up = parent; up != kNoParent; up = nodes[up].parent) {
      nodes[up].subtree_end = node.end;
    }
    nodes.push_back(node);
    node_of_row.insert(node_of_row.end(), length, static_cast<uint32_t>(nodes.size() - 1));
    return static_cast<uint32_t>(nodes.size() - 1);
  }
};

inline ExampleTrie chain(uint32_t length) {
  ExampleTrie trie;
  trie.add(kNoParent, length);
  return trie;
}

/// `count` roots of `length` rows each.
inline ExampleTrie forest(uint32_t count, uint32_t length) {
  ExampleTrie trie;
  for (uint32_t i = 0; i < count; ++i) trie.add(kNoParent, length);
  return trie;
}

/// A shared prefix and `count` suffixes.
inline ExampleTrie star(uint32_t prefix, uint32_t count, uint32_t suffix) {
  ExampleTrie trie;
  const uint32_t root = trie.add(kNoParent, prefix);
  for (uint32_t i = 0; i < count; ++i) trie.add(root, suffix);
  return trie;
}

/// A spine of `teeth` nodes of one row; each has a leaf of `tooth` rows. With `teeth_first` the
/// leaf comes before the rest of the spine, otherwise after all of it.
inline ExampleTrie comb(uint32_t teeth, uint32_t tooth, bool teeth_first) {
  ExampleTrie trie;
  std::vector<uint32_t> spine;
  for (uint32_t i = 0; i < teeth; ++i) {
    spine.push_back(trie.add(spine.empty() ? kNoParent : spine.back(), 1));
    if (teeth_first) trie.add(spine.back(), tooth);
  }
  for (uint32_t i = teeth; !teeth_first && i-- > 0;) trie.add(spine[i], tooth);
  return trie;
}

/// A complete binary tree of nodes of `length` rows, `levels` deep.
inline ExampleTrie binary_tree(uint32_t levels, uint32_t length) {
  ExampleTrie trie;
  struct Pending {
    uint32_t parent, level;
  };
  std::vector<Pending> pending = {{kNoParent, 1}};
  while (!pending.empty()) {
    const Pending next = pending.back();
    pending.pop_back();
    const uint32_t node = trie.add(next.parent, length);
    if (next.level < levels) {
      pending.push_back({node, next.level + 1});
      pending.push_back({node, next.level + 1});
    }
  }
  return trie;
}

/// Nodes of random lengths below random ancestors of the one before.
inline ExampleTrie random_trie(uint32_t nodes, uint32_t length_max, uint32_t seed) {
  std::mt19937 random(seed);
  ExampleTrie trie;
  uint32_t last = kNoParent;
  for (uint32_t i = 0; i < nodes; ++i) {
    uint32_t parent = last;
    // Up by a random number of steps, sometimes beyond the root.
    for (uint32_t steps = random() % 4; steps > 0 && parent != kNoParent; --steps) {
      parent = trie.nodes[parent].parent;
    }
    last = trie.add(parent, 1 + static_cast<uint32_t>(random() % length_max));
  }
  return trie;
}

inline std::vector<uint32_t> all_rows(const ExampleTrie& trie) {
  std::vector<uint32_t> rows(trie.rows());
  for (uint32_t i = 0; i < trie.rows(); ++i) rows[i] = i;
  return rows;
}

/// About every `step`-th row, at random, and always the last.
inline std::vector<uint32_t> some_rows(const ExampleTrie& trie, uint32_t step, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint32_t> rows;
  for (uint32_t i = 0; i < trie.rows(); ++i) {
    if (random() % step == 0 || i + 1 == trie.rows()) rows.push_back(i);
  }
  return rows;
}

}  // namespace espalier::engine
