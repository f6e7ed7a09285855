#include "engine/block_formats.h"

#include <array>
#include <cstdint>
#include <cstring>

#include "engine/f16.h"

namespace espalier::engine {
namespace {

/// Calls read(block, out) for each block. The blocks are structs of bytes as the files have them:
/// without padding, and copied, since they may lie at any address.
template <typename Block, size_t kElements, typename Read>
void for_each_block(const std::byte* blocks, size_t count, float* out, const Read& read) {
  static_assert(alignof(Block) == 1);
  for (size_t i = 0; i < count; ++i, blocks += sizeof(Block), out += kElements) {
    Block block;
    std::memcpy(&block, blocks, sizeof(block));
    read(block, out);
  }
}

struct Half {
  std::array<uint8_t, 2> bytes;
  float value() const {
    return f32_from_f16(static_cast<uint16_t>(bytes[0] | unsigned{bytes[1]} << 8));
  }
};

// ---- 32 weights: q · scale, or q · scale + least. The low nibbles are the first half's. ----

struct BlockQ4_0 {
  Half scale;
  std::array<uint8_t, 16> nibbles;
};

struct BlockQ4_1 {
  Half scale, least;
  std::array<uint8_t, 16> nibbles;
};

struct BlockQ5_0 {
  Half scale;
  std::array<uint8_t, 4> fifth_bits;  // bit i is weight i's
  std::array<uint8_t, 16> nibbles;
};

struct BlockQ5_1 {
  Half scale, least;
  std::array<uint8_t, 4> fifth_bits;
  std::array<uint8_t, 16> nibbles;
};

struct BlockQ8_0 {
  Half scale;
  std::array<int8_t, kShortBlock> steps;
};

uint32_t little_endian(const std::array<uint8_t, 4>& bytes) {
  uint32_t word;
  std::memcpy(&word, bytes.data(), sizeof(word));
  return word;
}

/// The 32 5-bit numbers of a Q5_0 or Q5_1.
template <typename Block>
std::array<int, kShortBlock> five_bit_steps(const Block& block) {
  std::array<int, kShortBlock> steps;
  const uint32_t fifth = little_endian(block.fifth_bits);
  for (size_t i = 0; i < 16; ++i) {
    steps[i] = static_cast<int>((block.nibbles[i] & 15u) | (fifth >> i & 1) << 4);
    steps[16 + i] = static_cast<int>(block.nibbles[i] >> 4 | (fifth >> (16 + i) & 1) << 4);
  }
  return steps;
}

// ---- 256 weights in groups: q · (scale · group scale) − least · group least. ----

/// 8 pairs of 6-bit numbers: of the first four each has a byte to itself, whose upper two bits
/// belong to one of the last four; the lower four bits of those are in the last four bytes.
struct GroupScales {
  std::array<uint8_t, 12> bytes;

  unsigned scale(size_t group) const { return number(group, 0); }
  unsigned least(size_t group) const { return number(group, 1); }

 private:
  unsigned number(size_t group, size_t second) const {
    if (group < 4) return bytes[group + 4 * second] & 63u;
    const unsigned lower = bytes[group + 4] >> (4 * second) & 15u;
    return lower | (bytes[group - 4 + 4 * second] >> 6) << 4;
  }
};

struct BlockQ2_K {
  std::array<uint8_t, 16> groups;  // of 16 weights: lower nibble scale, upper least
  std::array<uint8_t, 64> pairs;   // 2-bit numbers
  Half scale, least;
};

struct BlockQ3_K {
  std::array<uint8_t, 32> third_bits;  // clear: 4 less
  std::array<uint8_t, 64> pairs;
  std::array<uint8_t, 12> groups;  // 16 6-bit numbers, 32 more than the scales
  Half scale;
};

struct BlockQ4_K {
  Half scale, least;
  GroupScales groups;  // of 32 weights
  std::array<uint8_t, 128> nibbles;
};

struct BlockQ5_K {
  Half scale, least;
  GroupScales groups;
  std::array<uint8_t, 32> fifth_bits;  // bit g of byte i is weight i's of group g
  std::array<uint8_t, 128> nibbles;
};

struct BlockQ6_K {
  std::array<uint8_t, 128> nibbles;
  std::array<uint8_t, 64> upper_pairs;
  std::array<int8_t, 16> groups;  // of 16 weights: scales
  Half scale;
};

static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20 && sizeof(BlockQ5_0) == 22);
static_assert(sizeof(BlockQ5_1) == 24 && sizeof(BlockQ8_0) == 34 && sizeof(BlockQ2_K) == 84);
static_assert(sizeof(BlockQ3_K) == 110 && sizeof(BlockQ4_K) == 144 && sizeof(BlockQ5_K) == 176);
static_assert(sizeof(BlockQ6_K) == 210);

/// The scale of group `group` of a Q3_K: the lower four bits are a nibble of the first eight bytes,
/// the upper two in the last four.
int q3_k_scale(const std::array<uint8_t, 12>& groups, size_t group) {
  const unsigned lower = groups[group % 8] >> (group / 8 * 4) & 15u;
  const unsigned upper = groups[8 + group % 4] >> (group / 4 * 2) & 3u;
  return static_cast<int>(lower | upper << 4) - 32;
}

}  // namespace

void dequantise_q4_0(const std::byte* blocks, size_t count, float* out) {
  for_each_block<BlockQ4_0, kShortBlock>(blocks, count, out, [](const BlockQ4_0& block, float* to) {
    const float scale = block.scale.value();
    for (size_t i = 0; i < 16; ++i) {
      to[i] = static_cast<float>((block.nibbles[i] & 15) - 8) * scale;
      to[16 + i] = static_cast<float>((block.nibbles[i] >> 4) - 8) * scale;
    }
  });
}

void dequantise_q4_1(const std::byte* blocks, size_t count, float* out) {
  for_each_block<BlockQ4_1, kShortBlock>(blocks, count, out, [](const BlockQ4_1& block, float* to) {
    const float scale = block.scale.value(), least = block.least.value();
    for (size_t i = 0; i < 16; ++i) {
      to[i] = static_cast<float>(block.nibbles[i] & 15) * scale + least;
      to[16 + i] = static_cast<float>(block.nibbles[i] >> 4) * scale + least;
    }
  });
}

void dequantise_q5_0(const std::byte* blocks, size_t count, float* out) {
  for_each_block<BlockQ5_0, kShortBlock>(blocks, count, out, [](const BlockQ5_0& block, float* to) {
    const float scale = block.scale.value();
    const auto steps = five_bit_steps(block);
    for (size_t i = 0; i < kShortBlock; ++i) to[i] = static_cast<float>(steps[i] - 16) * scale;
  });
}

void dequantise_q5_1(const std::byte* blocks, size_t count, float* out) {
  for_each_block<BlockQ5_1, kShortBlock>(blocks, count, out, [](const BlockQ5_1& block, float* to) {
    const float scale = block.scale.value(), least = block.least.value();
    const auto steps = five_bit_steps(block);
    for (size_t i = 0; i < kShortBlock; ++i) to[i] = static_cast<float>(steps[i]) * scale + least;
  });
}

void dequantise_q8_0(const std::byte* blocks, size_t count, float* out) {
  for_each_block<BlockQ8_0, kShortBlock>(blocks, count, out, [](const BlockQ8_0& block, float* to) {
    const float scale = block.scale.value();
    for (size_t i = 0; i < kShortBlock; ++i) to[i] = static_cast<float>(block.steps[i]) * scale;
  });
}

void dequantise_q2_k(const std::byte* blocks, size_t count, float* out) {
  for_each_block<BlockQ2_K, kSuperBlock>(blocks, count, out, [](const BlockQ2_K& block, float* to) {
    const float scale = block.scale.value(), least = block.least.value();
    // Each half of the weights has 32 bytes of pairs: bits 2p and 2p + 1 of byte i are weight i's
    // of the half's p-th run of 32.
    for (size_t group = 0; group < 16; ++group) {
      const float step = scale * static_cast<float>(block.groups[group] & 15);
      const float below = least * static_cast<float>(block.groups[group] >> 4);
      const uint8_t* const pairs = &block.pairs[group / 8 * 32 + group % 2 * 16];
      const size_t shift = group % 8 / 2 * 2;
      for (size_t i = 0; i < 16; ++i) {
        to[group * 16 + i] = step * static_cast<float>(pairs[i] >> shift & 3) - below;
      }
    }
  });
}

void dequantise_q3_k(const std::byte* blocks, size_t count, float* out) {
  for_each_block<BlockQ3_K, kSuperBlock>(blocks, count, out, [](const BlockQ3_K& block, float* to) {
    const float scale = block.scale.value();
    for (size_t group = 0; group < 16; ++group) {
      const float step = scale * static_cast<float>(q3_k_scale(block.groups, group));
      const uint8_t* const pairs = &block.pairs[group / 8 * 32 + group % 2 * 16];
      const uint8_t* const thirds = &block.third_bits[group % 2 * 16];
      const size_t shift = group % 8 / 2 * 2, third = group / 2;
      for (size_t i = 0; i < 16; ++i) {
        const int q = (pairs[i] >> shift & 3) - (~thirds[i] >> third & 1) * 4;
        to[group * 16 + i] = step * static_cast<float>(q);
      }
    }
  });
}

void dequantise_q4_k(const std::byte* blocks, size_t count, float* out) {
  for_each_block<BlockQ4_K, kSuperBlock>(blocks, count, out, [](const BlockQ4_K& block, float* to) {
    const float scale = block.scale.value(), least = block.least.value();
    for (size_t group = 0; group < 8; ++group) {
      const float step = scale * static_cast<float>(block.groups.scale(group));
      const float below = least * static_cast<float>(block.groups.least(group));
      const uint8_t* const nibbles = &block.nibbles[group / 2 * 32];
      const size_t shift = group % 2 * 4;
      for (size_t i = 0; i < 32; ++i) {
        to[group * 32 + i] = step * static_cast<float>(nibbles[i] >> shift & 15) - below;
      }
    }
  });
}

void dequantise_q5_k(const std::byte* blocks, size_t count, float* out) {
  for_each_block<BlockQ5_K, kSuperBlock>(blocks, count, out, [](const BlockQ5_K& block, float* to) {
    const float scale = block.scale.value(), least = block.least.value();
    for (size_t group = 0; group < 8; ++group) {
      const float step = scale * static_cast<float>(block.groups.scale(group));
      const float below = least * static_cast<float>(block.groups.least(group));
      const uint8_t* const nibbles = &block.nibbles[group / 2 * 32];
      const size_t shift = group % 2 * 4;
      for (size_t i = 0; i < 32; ++i) {
        const int q = (nibbles[i] >> shift & 15) | (block.fifth_bits[i] >> group & 1) << 4;
        to[group * 32 + i] = step * static_cast<float>(q) - below;
      }
    }
  });
}

void dequantise_q6_k(const std::byte* blocks, size_t count, float* out) {
  for_each_block<BlockQ6_K, kSuperBlock>(blocks, count, out, [](const BlockQ6_K& block, float* to) {
    const float scale = block.scale.value();
    // Each half has 64 bytes of nibbles and 32 of pairs, and four runs of 32 weights: the lower
    // nibbles of the first 32 bytes and of the others, then their upper ones.
    for (size_t group = 0; group < 16; ++group) {
      const float step = scale * static_cast<float>(block.groups[group]);
      const size_t half = group / 8, run = group % 8 / 2, within = group % 2 * 16;
      const uint8_t* const nibbles = &block.nibbles[half * 64 + run % 2 * 32 + within];
      const uint8_t* const pairs = &block.upper_pairs[half * 32 + within];
      const size_t nibble_shift = run / 2 * 4, pair_shift = run * 2;
      for (size_t i = 0; i < 16; ++i) {
        const int q = (nibbles[i] >> nibble_shift & 15) | (pairs[i] >> pair_shift & 3) << 4;
        to[group * 16 + i] = step * static_cast<float>(q - 32);
      }
    }
  });
}

}  // namespace espalier::engine
