// f16 to f32, exactly, without branches or calls, so that a loop around it becomes vector code.
//
// Thread contract: pure functions.
#pragma once

#include <bit>
#include <cstdint>

namespace espalier::engine {

inline float f32_from_f16(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t magnitude = uint32_t{half & 0x7fffu} << 13;
  // Exponent and mantissa are in place but for the bias, 127 - 15: a multiplication by 2^112 mends
  // that, exactly, for subnormal numbers too. Infinities and NaNs want the largest exponent
  // instead.
  const uint32_t finite = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  const uint32_t special = magnitude | 0x7f800000u;
  return std::bit_cast<float>(sign | (magnitude >= (0x7c00u << 13) ? special : finite));
}

}  // namespace espalier::engine
