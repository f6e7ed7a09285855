// e^x for f32 without branches or calls, so that a loop around it becomes vector code.
//
// Included only by files that are compiled once per instruction set, and by tests.
// Internal linkage is essential: an ordinary inline function would exist once in the program, with
// the instruction set of whichever file the linker happened to take it from.
#pragma once

#include <cstdint>
#include <cstring>

namespace espalier::engine {
namespace {

/// e^x within 1.2e-7 relative. Below ln(FLT_MIN) = -87.34 exactly 0 (no subnormal numbers: they are
/// slow), above ln(FLT_MAX) = 88.72 infinity, NaN for NaN; e^0 is exactly 1.
///
/// e^x = 2^n · e^r with n = round(x / ln 2), |r| <= ln(2) / 2, and e^r = 1 + r + r² · p(r);
/// constants and polynomial are those of Moshier's Cephes library (single/expf.c).
[[gnu::always_inline]] inline float fast_exp(float x) {
  constexpr float kLowest = -87.3365448f;
  constexpr float kHighest = 89.0f;  // e^89 is infinity already
  constexpr float kLog2OfE = 1.44269504088896341f;
  constexpr float kLn2High = 0.693359375f;  // few bits: its products with n are exact
  constexpr float kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 12582912.0f;  // 1.5 · 2^23: adding it leaves no bits for a fraction
  constexpr uint32_t kRoundBits = 0x4b400000u;

  const float above = x < kLowest ? kLowest : x;
  const float clamped = kHighest < above ? kHighest : above;

  const float shifted = clamped * kLog2OfE + kRound;
  const float n = shifted - kRound;
  const float r = (clamped - n * kLn2High) - n * kLn2Low;

  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float e_to_r = (p * (r * r) + r) + 1.0f;

  // 2^n in two factors, because 2^128 is not an f32; each has half of the exponent.
  uint32_t shifted_bits;
  std::memcpy(&shifted_bits, &shifted, sizeof(shifted_bits));
  const uint32_t biased = shifted_bits - kRoundBits + 252;  // n + 2 · 126, never negative
  const uint32_t half = biased >> 1;
  const uint32_t first_bits = (half + 1) << 23;
  const uint32_t second_bits = (biased - half + 1) << 23;
  float first, second;
  std::memcpy(&first, &first_bits, sizeof(first));
  std::memcpy(&second, &second_bits, sizeof(second));
  const float result = e_to_r * first * second;
  return x < kLowest ? 0.0f : result;
}

}  // namespace
}  // namespace espalier::engine
