// The merges of a byte pair encoding: an open-addressing hash table from pairs of ids to ranks and
// results, one cache line a lookup, nearly always.
//
// Thread contract: immutable after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace espalier::text {

/// Ids of a pair and of the entry that it merges to. The rank is the position in the list.
struct Merge {
  uint32_t left, right, merged;
};

class MergeTable {
 public:
  struct Found {
    uint32_t rank, merged;
  };
  /// Of the same pair, the last merge counts.
  explicit MergeTable(const std::vector<Merge>& merges);

  /// Null if the pair has no merge.
  const Found* find(uint32_t left, uint32_t right) const {
    const Slot& slot = slots_[slot_of(uint64_t{left} << 32 | right)];
    return slot.pair == kEmptyPair ? nullptr : &slot.found;
  }

 private:
  static constexpr uint64_t kEmptyPair = UINT64_MAX;  // no entry has id UINT32_MAX

  struct Slot {
    uint64_t pair;
    Found found;
  };

  /// The slot that holds `pair`, or the empty one where it belongs. Linear probing from a
  /// multiplicative (Fibonacci) hash; a third of the slots is empty, so it ends.
  size_t slot_of(uint64_t pair) const {
    const uint64_t mixed = (pair ^ pair >> 29) * 0x9E3779B97F4A7C15u;
    size_t slot = mixed >> shift_;
    while (slots_[slot].pair != pair && slots_[slot].pair != kEmptyPair) {
      slot = (slot + 1) & (slots_.size() - 1);
    }
    return slot;
  }

  std::vector<Slot> slots_;  // a power of two, at most two thirds full
  int shift_;
};

}  // namespace espalier::text
