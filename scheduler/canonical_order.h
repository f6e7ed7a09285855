// The children of a prefix trie's nodes in an order that depends on the tokens alone: by first
// token, tenants' roots by tenant. Walking down first and then on gives the canonical depth-first
// preorder.
//
// Thread contract: none; one thread at a time. Memory is kept between batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/prefix_trie.h"

namespace espalier::scheduler {

class CanonicalOrder {
 public:
  /// Reads `trie` as it is now. O(nodes) beyond a few hundred nodes.
  void arrange(const PrefixTrie& trie);

  /// Tenants' roots by ascending tenant.
  std::span<const PrefixTrie::TenantRoot> roots() const { return roots_; }
  /// The child with the smallest first token, or PrefixTrie::kNone.
  uint32_t first_child(uint32_t node) const { return links_[node].first_child; }
  /// The next child of the same parent, or PrefixTrie::kNone.
  uint32_t next_sibling(uint32_t node) const { return links_[node].next_sibling; }

 private:
  struct Links {
    uint32_t first_child = PrefixTrie::kNone;
    uint32_t next_sibling = PrefixTrie::kNone;
  };

  void sort_keys();

  std::vector<PrefixTrie::TenantRoot> roots_;
  std::vector<Links> links_;
  std::vector<uint64_t> keys_;  // (first token, node)
  std::vector<uint64_t> scratch_;
};

}  // namespace espalier::scheduler
