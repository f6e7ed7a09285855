#include "scheduler/canonical_order.h"

#include <algorithm>
#include <array>
#include <bit>

namespace espalier::scheduler {
namespace {

// Below this many keys std::sort is faster than a pass over a histogram.
constexpr size_t kRadixKeysMin = 512;
constexpr unsigned kDigitBits = 11;
constexpr size_t kDigits = size_t{1} << kDigitBits;
constexpr unsigned kTokenShift = 32;

}  // namespace

void CanonicalOrder::arrange(const PrefixTrie& trie) {
  const std::span<const PrefixTrie::Node> nodes = trie.nodes();
  roots_.assign(trie.roots().begin(), trie.roots().end());
  std::sort(roots_.begin(), roots_.end(),
            [](const auto& a, const auto& b) { return a.tenant < b.tenant; });

  links_.assign(nodes.size(), Links{});
  keys_.clear();
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (nodes[n].parent != PrefixTrie::kNone) {
      keys_.push_back((uint64_t{nodes[n].tokens[0]} << kTokenShift) | n);
    }
  }
  // One sort of all nodes sorts every list of children: each list is built by prepending, in
  // descending order of the first token. Siblings differ in it.
  sort_keys();
  for (size_t k = keys_.size(); k-- > 0;) {
    const auto node = static_cast<uint32_t>(keys_[k]);
    Links& parent = links_[nodes[node].parent];
    links_[node].next_sibling = parent.first_child;
    parent.first_child = node;
  }
}

/// Sorts by token; beyond kRadixKeysMin by radix, in time linear in the keys.
void CanonicalOrder::sort_keys() {
  if (keys_.size() < kRadixKeysMin) {
    std::sort(keys_.begin(), keys_.end());
    return;
  }
  uint64_t used_bits = 0;
  for (const uint64_t key : keys_) {
    used_bits |= key;
  }
  const auto bits_end = static_cast<unsigned>(std::bit_width(used_bits));
  scratch_.resize(keys_.size());
  for (unsigned shift = kTokenShift; shift < bits_end; shift += kDigitBits) {
    const auto digit = [shift](uint64_t key) { return (key >> shift) & (kDigits - 1); };
    std::array<uint32_t, kDigits> next{};
    for (const uint64_t key : keys_) {
      ++next[digit(key)];
    }
    uint32_t begin = 0;
    for (uint32_t& count : next) {
      const uint32_t digit_begin = begin;
      begin += count;
      count = digit_begin;
    }
    for (const uint64_t key : keys_) {
      scratch_[next[digit(key)]++] = key;
    }
    keys_.swap(scratch_);
  }
}

}  // namespace espalier::scheduler
