// The prefix trie of a batch: one node per run of tokens that its sequences share.
//
// Path-compressed: an edge is a view into the ids of the sequence that brought it, so inserting
// copies no token. Sequences of different tenants hang under different roots and never share.
//
// A node ends wherever a sequence ends or branches off. When a node is split, the new node takes
// the upper part and the old one keeps its number for the lower part: neither its children's keys
// nor the sequences that end in it have to be touched.
//
// All children of all nodes are found through one hash table keyed (parent, first token), so that a
// node with 16 384 children costs no more than one with two. Inserting a sequence of n tokens takes
// O(n) whatever is in the trie.
//
// Thread contract: none; one thread at a time. Memory is kept between batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/flat_index.h"

namespace espalier::scheduler {

class PrefixTrie {
 public:
  /// No such node.
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Node {
    const uint32_t* tokens = nullptr;  // `length` ids of the edge that leads here
    uint32_t length = 0;               // 0 only for a tenant's root
    uint32_t parent = kNone;           // kNone only for a tenant's root
    uint32_t position = 0;             // position in its sequences of the first token
  };
  struct TenantRoot {
    uint64_t tenant = 0;
    uint32_t node = 0;
  };

  /// `seed` scatters the hash table; nothing that can be observed depends on it, except time.
  explicit PrefixTrie(uint64_t seed);

  /// Rows that insert() would add.
  size_t new_rows(uint64_t tenant, std::span<const uint32_t> ids) const;

  /// Adds a sequence of at least one token and returns the node at whose end it ends. `ids` must
  /// stay where they are until clear().
  uint32_t insert(uint64_t tenant, std::span<const uint32_t> ids);

  /// Forgets everything; leaves no view into anyone's ids.
  void clear();

  /// Distinct prefixes: the tokens of all nodes.
  size_t rows() const { return rows_; }

  /// Numbered in order of creation, which depends on the order of insertion.
  std::span<const Node> nodes() const { return nodes_; }
  std::span<const TenantRoot> roots() const { return roots_; }

 private:
  uint32_t root_of(uint64_t tenant);
  uint32_t add_node(const Node& node);
  uint32_t add_leaf(uint32_t parent, std::span<const uint32_t> ids, size_t position);
  uint32_t split(uint32_t node, uint32_t upper_length);

  std::vector<Node> nodes_;
  std::vector<TenantRoot> roots_;
  FlatIndex children_;  // (parent, first token) -> node
  FlatIndex tenants_;   // tenant -> its root
  size_t rows_ = 0;
};

/// How many leading ids `a` and `b` (n each) have in common.
size_t common_prefix(const uint32_t* a, const uint32_t* b, size_t n);

}  // namespace espalier::scheduler
