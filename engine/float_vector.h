// Vectors of f32, as wide as the instruction set that the including file is compiled for.
//
// Included only by files that are compiled once for each instruction set. Internal linkage is
// essential, see fast_exp.h. Compile with -ffp-contract=off: where products and sums are one
// rounding, multiply_add() says so, and all variants of a loop give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace espalier::engine {
namespace {

#if defined(__AVX512F__)
constexpr size_t kVectorFloats = 16;
#elif defined(__AVX2__)
constexpr size_t kVectorFloats = 8;
#else
constexpr size_t kVectorFloats = 4;
#endif

using FloatVector [[gnu::vector_size(kVectorFloats * sizeof(float))]] = float;
using IntVector [[gnu::vector_size(kVectorFloats * sizeof(float))]] = int32_t;

[[gnu::always_inline]] inline FloatVector load(const float* from) {
  FloatVector v;
  __builtin_memcpy(&v, from, sizeof(v));
  return v;
}

[[gnu::always_inline]] inline void store(float* to, FloatVector v) {
  __builtin_memcpy(to, &v, sizeof(v));
}

/// Keeps all bits, whatever they stand for.
[[gnu::always_inline]] inline FloatVector broadcast(float x) {
#if defined(__AVX512F__)
  return _mm512_set1_ps(x);
#elif defined(__AVX2__)
  return _mm256_set1_ps(x);
#else
  return FloatVector{x, x, x, x};
#endif
}

/// sum + a · b, rounded once where the instruction set can.
[[gnu::always_inline]] inline FloatVector multiply_add(FloatVector sum, FloatVector a,
                                                       FloatVector b) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, sum);
#elif defined(__AVX2__)
  return _mm256_fmadd_ps(a, b, sum);
#else
  return sum + a * b;
#endif
}

/// The larger of two; `maximum` where `x` is NaN.
[[gnu::always_inline]] inline FloatVector larger(FloatVector x, FloatVector maximum) {
#if defined(__AVX512F__)
  return _mm512_max_ps(x, maximum);
#elif defined(__AVX2__)
  return _mm256_max_ps(x, maximum);
#else
  return x > maximum ? x : maximum;
#endif
}

/// 2^x for x <= 0, within 2.4e-7 relative. Below -126 exactly 0 (no subnormal numbers: they are
/// slow), NaN for NaN; 2^0 is exactly 1.
///
/// 2^x = 2^n · 2^r with n = round(x), |r| <= 1/2; the polynomial is that of Moshier's Cephes
/// library (single/exp2f.c).
[[gnu::always_inline]] inline FloatVector exp2_of(FloatVector x) {
  const FloatVector lowest = broadcast(-126.0f);
#if defined(__AVX512F__)
  const FloatVector n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
  // 1.5 · 2^23: adding it leaves no bits for a fraction.
  const FloatVector shifted = x + broadcast(12582912.0f);
  const FloatVector n = shifted - broadcast(12582912.0f);
#endif
  const FloatVector r = x - n;
  FloatVector p = broadcast(1.535336188319500e-4f);
  p = multiply_add(broadcast(1.339887440266574e-3f), p, r);
  p = multiply_add(broadcast(9.618437357674640e-3f), p, r);
  p = multiply_add(broadcast(5.550332471162809e-2f), p, r);
  p = multiply_add(broadcast(2.402264791363012e-1f), p, r);
  p = multiply_add(broadcast(6.931472028550421e-1f), p, r);
  p = multiply_add(broadcast(1.0f), p, r);
#if defined(__AVX512F__)
  return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, lowest, _CMP_NLT_UQ), p, n);
#else
  constexpr int32_t kShiftedZero = 0x4b400000;  // the bits of 1.5 · 2^23
  IntVector bits;
  __builtin_memcpy(&bits, &shifted, sizeof(bits));
  bits = (bits - (kShiftedZero - 127)) << 23;
  FloatVector power;
  __builtin_memcpy(&power, &bits, sizeof(power));
  return x < lowest ? FloatVector{} : p * power;
#endif
}

}  // namespace
}  // namespace espalier::engine
