// Words of up to 16 bytes that are one id: an open-addressing hash table whose keys are the bytes
// themselves, in two machine words, so that a lookup neither allocates nor follows a pointer.
//
// Thread contract: immutable once filled.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace espalier::text {

class ShortWordIds {
 public:
  static constexpr size_t kBytesMax = 16;
  static constexpr uint32_t kNoId = UINT32_MAX;

  /// Room for `count` words.
  explicit ShortWordIds(size_t count) : slots_(std::bit_ceil(2 * count + 2)) {}

  /// `word` has 1 to kBytesMax bytes and is new.
  void insert(std::string_view word, uint32_t id) {
    slots_[slot_of(key_of(word))] = {key_of(word), id};
  }

  /// The id of `word`, or kNoId.
  uint32_t find(std::string_view word) const {
    return word.size() > kBytesMax || word.empty() ? kNoId : slots_[slot_of(key_of(word))].id;
  }

 private:
  struct Key {
    uint64_t head, tail;  // overlap in words of fewer than 16 bytes; differ for different words …
    uint32_t size;        // … of one size
    bool operator==(const Key&) const = default;
  };
  struct Slot {
    Key key{0, 0, 0};
    uint32_t id = kNoId;
  };

  static uint64_t load(const char* bytes, size_t size) {
    uint64_t value = 0;
    std::memcpy(&value, bytes, size);
    return value;
  }
  static Key key_of(std::string_view word) {
    const char* const data = word.data();
    const size_t size = word.size();
    const auto size_32 = static_cast<uint32_t>(size);
    if (size >= 8) return {load(data, 8), load(data + size - 8, 8), size_32};
    if (size >= 4) return {load(data, 4), load(data + size - 4, 4), size_32};
    if (size >= 2) return {load(data, 2), load(data + size - 2, 2), size_32};
    return {load(data, 1), 0, size_32};
  }
  /// The slot that holds `key`, or the empty one where it belongs; at least half of them are empty.
  size_t slot_of(const Key& key) const {
    uint64_t mixed = (key.head ^ key.size) * 0x9E3779B97F4A7C15u;
    mixed = (mixed ^ mixed >> 32 ^ key.tail) * 0xD6E8FEB86659FD93u;
    size_t slot = (mixed ^ mixed >> 32) & (slots_.size() - 1);
    while (slots_[slot].key.size != 0 && slots_[slot].key != key) {
      slot = (slot + 1) & (slots_.size() - 1);
    }
    return slot;
  }

  std::vector<Slot> slots_;  // a power of two
};

}  // namespace espalier::text
