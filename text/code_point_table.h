// A byte for every code point, in two stages: of blocks of 256 code points that are alike one is
// stored. So a property of Unicode takes a few kilobytes, and a lookup two loads.
//
// Thread contract: immutable after construction.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace espalier::text {

inline constexpr size_t kCodePointCount = 0x110000;

class CodePointTable {
 public:
  /// `values` has an entry for every code point.
  explicit CodePointTable(const std::vector<uint8_t>& values) {
    std::map<Block, uint16_t> known;
    for (size_t index = 0; index < block_of_.size(); ++index) {
      Block block;
      for (size_t i = 0; i < block.size(); ++i) block[i] = values.at(index * block.size() + i);
      const auto [entry, added] = known.emplace(block, static_cast<uint16_t>(blocks_.size()));
      if (added) blocks_.push_back(block);
      block_of_[index] = entry->second;
    }
  }

  uint8_t operator[](char32_t code_point) const {
    return blocks_[block_of_[code_point >> 8]][code_point & 0xFF];
  }

 private:
  using Block = std::array<uint8_t, 256>;
  std::vector<Block> blocks_;
  std::array<uint16_t, kCodePointCount / 256> block_of_{};
};

}  // namespace espalier::text
