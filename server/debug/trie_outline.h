// The part of a trie that fits on a page: its largest subtrees, and how much of the rest is left
// out.
//
// Thread contract: functions without state.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "server/debug/batch_recorder.h"

namespace espalier::server {

/// One node that is shown.
struct OutlineNode {
  engine::TrieNode node;
  size_t depth = 0;         // of nodes: 0 for roots
  size_t ends = 0;          // sequences whose last token is in it
  size_t sequences = 0;     // … in it or below it: those that share its rows
  size_t hidden_nodes = 0;  // of its subtree, under children that are not shown,
  size_t hidden_rows = 0;   // and their rows

  size_t rows() const { return node.end - node.begin; }
  size_t subtree_rows() const { return node.subtree_end - node.begin; }
};

struct TrieOutline {
  std::vector<OutlineNode> nodes;  // preorder; whoever is here, its parent is too
  size_t all_nodes = 0;
  size_t hidden_roots = 0;
  size_t hidden_root_rows = 0;  // of their subtrees
};

/// The nodes with the largest subtrees, at most `nodes_max` and none deeper than `depth_max`.
TrieOutline outline_of(const RecordedTrie& trie, size_t nodes_max, size_t depth_max);

/// "batch 7: 32 sequences, 18432 tokens in 2560 rows (7.2 tokens a row), 33 nodes, closed by rows"
std::string headline_of(const RecordedTrie& trie);

}  // namespace espalier::server
