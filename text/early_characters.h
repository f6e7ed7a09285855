// Characters of two or three bytes whose bytes merge to one id before any of them merges with a
// neighbour, so that merging may start with that id instead of the bytes. Most of Chinese is such.
//
// Why the result is the same: let R be the highest rank among the merges that make the character of
// its bytes alone. It is early next to a kind of neighbour if every merge of something of that kind
// with the character, or with a part of it that comes about on the way and lies at that side, ranks
// above R. As long as the character is not complete, one of its own merges ranks R or lower, so
// none of those can be the lowest: the bytes merge as they would alone. And once it is there from
// the start, what it can merge with ranks above R too, hence cannot come before a merge that came
// before its completion. So all other merges happen in the same order.
//
// Thread contract: immutable after construction.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/merge_table.h"

namespace espalier::text {

class EarlyCharacters {
 public:
  /// `raw_entries`: the entries of the vocabulary that stand for bytes, as these.
  EarlyCharacters(const std::unordered_map<uint32_t, std::string>& raw_entries,
                  const std::vector<Merge>& merges, const MergeTable& table,
                  const std::array<uint32_t, 256>& byte_ids);

  struct Found {
    uint32_t id = 0;
    size_t length = 0;  // in bytes; 0: none
  };
  /// The early character at `at` < word.size() of a word in valid UTF-8.
  Found find(std::string_view word, size_t at) const {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(word[i]); };
    if (byte(at) < 0xC2 || byte(at) > 0xEF) return {};
    const size_t length = byte(at) < 0xE0 ? 2 : 3, end = at + length;
    if (end > word.size()) return {};
    const uint32_t tail = byte(end - 1) & 0x3Fu;
    const uint32_t code_point = length == 2
                                    ? (byte(at) & 0x1Fu) << 6 | tail
                                    : (byte(at) & 0x0Fu) << 12 | (byte(at + 1) & 0x3Fu) << 6 | tail;
    unsigned needed = 0;
    if (at > 0) needed |= byte(at - 1) < 0x80 ? kBehindAscii : kBehindOther;
    if (end < word.size()) needed |= byte(end) < 0x80 ? kBeforeAscii : kBeforeOther;
    const Entry& entry = entries_[code_point];
    if (entry.early == 0 || (entry.early & needed) != needed) return {};
    return {entry.id, length};
  }

 private:
  /// Kinds of neighbours, next to which a character is early.
  enum Neighbour : unsigned {
    kBehindAscii = 1,
    kBehindOther = 2,
    kBeforeAscii = 4,
    kBeforeOther = 8,
    kAlone = 16,
  };
  struct Entry {
    uint32_t id = 0;
    unsigned early = 0;  // Neighbours; kAlone in all that are one id
  };
  /// The lowest ranks of the merges of one entry across the border of a character, by what the
  /// other side has at the border.
  struct Borders {
    uint32_t behind_ascii = UINT32_MAX, behind_other = UINT32_MAX;
    uint32_t before_ascii = UINT32_MAX, before_other = UINT32_MAX;
    void lower_to(const Borders& other);
  };
  using BordersById = std::unordered_map<uint32_t, Borders>;

  static BordersById find_borders(const std::unordered_map<uint32_t, std::string>& raw_entries,
                                  const std::vector<Merge>& merges);
  static Entry trace(std::string_view bytes, const MergeTable& table,
                     const std::array<uint32_t, 256>& byte_ids, const BordersById& borders);

  std::vector<Entry> entries_;  // by code point
};

}  // namespace espalier::text
