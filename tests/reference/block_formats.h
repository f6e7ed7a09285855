// The naive twin of engine/block_formats.h: one weight at a time, from where its bits lie in a
// block.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/tensor_view.h"

namespace espalier::reference {

/// The value of an f16's bits, by arithmetic.
inline float f16_value(unsigned bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31), fraction = static_cast<int>(bits & 1023);
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(fraction), -24)
                              : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

/// Weight `i` of one block. Scales must be finite.
inline float block_weight(engine::DataType type, std::span<const uint8_t> b, size_t i) {
  using engine::DataType;
  const auto half = [&](size_t at) { return f16_value(b[at] + 256u * b[at + 1]); };
  const auto bit = [&](size_t at, size_t k) { return b[at + k / 8] >> (k % 8) & 1; };
  // Of 32: nibble i of the block's bytes from `at`, and of 256: of each 64 the first 32 are low.
  const auto nibble = [&](size_t at) { return i < 16 ? b[at + i] & 15 : b[at + i - 16] >> 4; };
  const auto long_nibble = [&](size_t at) {
    const unsigned byte = b[at + i / 64 * 32 + i % 32];
    return static_cast<int>(i % 64 < 32 ? byte & 15 : byte >> 4);
  };
  // Two bits: of each 128 the four runs of 32 lie in the same 32 bytes.
  const auto pair = [&](size_t at) {
    return b[at + i / 128 * 32 + i % 32] >> (2 * (i % 128 / 32)) & 3;
  };
  // The 12 bytes of 6-bit scales and least values of eight groups.
  const auto six_bits = [&](size_t at, size_t group, bool least) -> unsigned {
    if (group < 4) return b[at + group + (least ? 4 : 0)] % 64;
    const unsigned both = b[at + 8 + group - 4];
    return (least ? both / 16 : both % 16) + b[at + group - 4 + (least ? 4 : 0)] / 64 * 16;
  };
  const auto number = [](auto value) { return static_cast<float>(value); };
  switch (type) {
    case DataType::kQ4_0:
      return number(nibble(2) - 8) * half(0);
    case DataType::kQ4_1:
      return number(nibble(4)) * half(0) + half(2);
    case DataType::kQ5_0:
      return number(nibble(6) + 16 * bit(2, i) - 16) * half(0);
    case DataType::kQ5_1:
      return number(nibble(8) + 16 * bit(4, i)) * half(0) + half(2);
    case DataType::kQ8_0:
      return number(static_cast<int8_t>(b[2 + i])) * half(0);
    case DataType::kQ2_K: {
      const unsigned group = b[i / 16];
      return half(80) * number(group % 16) * number(pair(16)) - half(82) * number(group / 16);
    }
    case DataType::kQ3_K: {
      const size_t group = i / 16;
      const unsigned low = group < 8 ? b[96 + group] % 16 : b[96 + group - 8] / 16;
      const unsigned high = b[104 + group % 4] >> (2 * (group / 4)) & 3;
      const int third = b[i % 32] >> (i / 32) & 1;
      return half(108) * number(static_cast<int>(low + 16 * high) - 32) *
             number(pair(32) + 4 * third - 4);
    }
    case DataType::kQ4_K:
      return half(0) * number(six_bits(4, i / 32, false)) * number(long_nibble(16)) -
             half(2) * number(six_bits(4, i / 32, true));
    case DataType::kQ5_K: {
      const int fifth = b[16 + i % 32] >> (i / 32) & 1;
      return half(0) * number(six_bits(4, i / 32, false)) * number(long_nibble(48) + 16 * fifth) -
             half(2) * number(six_bits(4, i / 32, true));
    }
    case DataType::kQ6_K: {
      const unsigned byte = b[i / 128 * 64 + i % 64];
      const int low = static_cast<int>(i % 128 < 64 ? byte & 15 : byte >> 4);
      return half(208) * number(static_cast<int8_t>(b[192 + i / 16])) *
             number(low + 16 * pair(128) - 32);
    }
    default:
      return NAN;
  }
}

}  // namespace espalier::reference
