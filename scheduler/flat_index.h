// An open-addressing hash table from 64-bit keys to 32-bit values that is emptied in O(1) and keeps
// its memory: what a prefix trie finds its children with.
//
// Linear probing at a load of at most one half. Keys come from users' texts, so they are mixed with
// a seed that nobody outside knows: a chosen set of keys cannot pile up in one run of slots.
//
// Thread contract: none; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace espalier::scheduler {

class FlatIndex {
 public:
  explicit FlatIndex(uint64_t seed) : slots_(kSlotsMin), seed_(seed) {}

  /// Forgets all keys.
  void clear() {
    keys_ = 0;
    if (++generation_ == 0) {  // after 2^32 clears old marks would look fresh
      slots_.assign(slots_.size(), Slot{});
      generation_ = 1;
    }
  }

  /// The value of `key`, null when it has none; valid until the next insertion.
  const uint32_t* find(uint64_t key) const {
    const Slot& slot = slots_[probe(key)];
    return slot.generation == generation_ ? &slot.value : nullptr;
  }

  struct Place {
    uint32_t* value;  // valid until the next insertion
    bool inserted;
  };
  /// The place of `key`, which gets `value` if it had none.
  Place find_or_insert(uint64_t key, uint32_t value) {
    if (2 * (keys_ + 1) > slots_.size()) {
      grow();
    }
    Slot& slot = slots_[probe(key)];
    const bool inserted = slot.generation != generation_;
    if (inserted) {
      slot = {key, value, generation_};
      ++keys_;
    }
    return {&slot.value, inserted};
  }

 private:
  struct Slot {
    uint64_t key = 0;
    uint32_t value = 0;
    uint32_t generation = 0;  // holds a key if equal to the table's
  };
  static constexpr size_t kSlotsMin = 64;  // a power of two

  /// The slot that holds `key`, or the free one where it belongs.
  size_t probe(uint64_t key) const {
    const size_t mask = slots_.size() - 1;
    size_t at = mix(key) & mask;
    while (slots_[at].generation == generation_ && slots_[at].key != key) {
      at = (at + 1) & mask;
    }
    return at;
  }

  /// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every input bit reaches every output
  /// bit.
  uint64_t mix(uint64_t key) const {
    uint64_t z = key ^ seed_;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }

  void grow() {
    std::vector<Slot> old(2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.generation == generation_) {
        slots_[probe(slot.key)] = slot;
      }
    }
  }

  std::vector<Slot> slots_;
  uint64_t seed_;
  size_t keys_ = 0;
  uint32_t generation_ = 1;
};

}  // namespace espalier::scheduler
