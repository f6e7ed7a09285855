#include "scheduler/prefix_trie.h"

#include <algorithm>
#include <cstring>

namespace espalier::scheduler {
namespace {

uint64_t child_key(uint32_t parent, uint32_t token) { return (uint64_t{parent} << 32U) | token; }

}  // namespace

size_t common_prefix(const uint32_t* a, const uint32_t* b, size_t n) {
  // memcmp is the C library's widest vector loop; its blocks shrink around the first difference.
  size_t at = 0;
  for (const size_t block : {size_t{256}, size_t{16}}) {
    while (at + block <= n && std::memcmp(a + at, b + at, block * sizeof(uint32_t)) == 0) {
      at += block;
    }
  }
  while (at < n && a[at] == b[at]) {
    ++at;
  }
  return at;
}

PrefixTrie::PrefixTrie(uint64_t seed) : children_(seed), tenants_(~seed) {}

size_t PrefixTrie::new_rows(uint64_t tenant, std::span<const uint32_t> ids) const {
  const uint32_t* child = tenants_.find(tenant);
  size_t matched = 0;
  while (child != nullptr && matched < ids.size()) {
    child = children_.find(child_key(*child, ids[matched]));
    if (child == nullptr) {
      break;
    }
    const Node& node = nodes_[*child];
    const size_t comparable = std::min<size_t>(node.length, ids.size() - matched);
    const size_t shared = common_prefix(node.tokens, ids.data() + matched, comparable);
    matched += shared;
    if (shared < node.length) {
      break;
    }
  }
  return ids.size() - matched;
}

uint32_t PrefixTrie::insert(uint64_t tenant, std::span<const uint32_t> ids) {
  uint32_t at = root_of(tenant);
  size_t matched = 0;
  while (matched < ids.size()) {
    const auto next = static_cast<uint32_t>(nodes_.size());
    const auto [child, inserted] = children_.find_or_insert(child_key(at, ids[matched]), next);
    if (inserted) {
      return add_leaf(at, ids.subspan(matched), matched);
    }
    const Node& node = nodes_[*child];
    const size_t comparable = std::min<size_t>(node.length, ids.size() - matched);
    const size_t shared = common_prefix(node.tokens, ids.data() + matched, comparable);
    matched += shared;
    if (shared == node.length) {
      at = *child;
    } else {
      const uint32_t lower = *child;
      *child = next;  // the upper part takes the place under the parent
      at = split(lower, static_cast<uint32_t>(shared));
    }
  }
  return at;
}

void PrefixTrie::clear() {
  nodes_.clear();
  roots_.clear();
  children_.clear();
  tenants_.clear();
  rows_ = 0;
}

uint32_t PrefixTrie::root_of(uint64_t tenant) {
  const auto next = static_cast<uint32_t>(nodes_.size());
  const auto [root, inserted] = tenants_.find_or_insert(tenant, next);
  if (inserted) {
    add_node(Node{});
    roots_.push_back({tenant, next});
  }
  return *root;
}

uint32_t PrefixTrie::add_node(const Node& node) {
  nodes_.push_back(node);
  return static_cast<uint32_t>(nodes_.size() - 1);
}

uint32_t PrefixTrie::add_leaf(uint32_t parent, std::span<const uint32_t> ids, size_t position) {
  rows_ += ids.size();
  return add_node(
      {ids.data(), static_cast<uint32_t>(ids.size()), parent, static_cast<uint32_t>(position)});
}

/// Gives the first `upper_length` tokens of `node` to a new node, its parent from now on. The
/// caller has entered the new node's number under the old parent.
uint32_t PrefixTrie::split(uint32_t node, uint32_t upper_length) {
  Node upper = nodes_[node];
  upper.length = upper_length;
  const uint32_t upper_number = add_node(upper);
  Node& lower = nodes_[node];
  lower.tokens += upper_length;
  lower.length -= upper_length;
  lower.position += upper_length;
  lower.parent = upper_number;
  children_.find_or_insert(child_key(upper_number, lower.tokens[0]), node);
  return upper_number;
}

}  // namespace espalier::scheduler
