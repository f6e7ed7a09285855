// f32 to bf16 and back, without branches or calls, so that a loop around it becomes vector code.
//
// Internal linkage is essential, as in fast_exp.h: files of different instruction sets include it.
#pragma once

#include <cstdint>
#include <cstring>

namespace espalier::engine {
namespace {

/// Rounds to nearest, ties to even; NaN stays NaN, and what is too large becomes infinity.
[[gnu::always_inline]] inline uint16_t bf16_from_f32(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  const uint32_t rounded = bits + 0x7fffU + ((bits >> 16U) & 1U);
  const uint32_t quiet = bits | 0x00400000U;  // else a NaN's payload could be rounded away
  const uint32_t result = (bits & 0x7fffffffU) > 0x7f800000U ? quiet : rounded;
  return static_cast<uint16_t>(result >> 16U);
}

[[gnu::always_inline]] inline float f32_from_bf16(uint16_t x) {
  const uint32_t bits = static_cast<uint32_t>(x) << 16U;
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

}  // namespace
}  // namespace espalier::engine
