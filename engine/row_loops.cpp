// Compiled once for each instruction set, with ESPALIER_ROW_LOOPS naming the table that results. It
// must not use inline functions of other headers: see fast_exp.h.
#include <cstddef>

#include "engine/bf16.h"
#include "engine/row_formulas.h"
#include "engine/row_loops_tables.h"

namespace espalier::engine {
namespace {

/// Sums that run side by side, as wide as the widest vector register.
constexpr size_t kPartialSums = 16;

float sum_of_squares(const float* x, size_t n) {
  float partial[kPartialSums] = {};
  const size_t whole = n / kPartialSums * kPartialSums;
  for (size_t i = 0; i < whole; i += kPartialSums) {
    for (size_t lane = 0; lane < kPartialSums; ++lane) partial[lane] += x[i + lane] * x[i + lane];
  }
  for (size_t i = whole; i < n; ++i) partial[i - whole] += x[i] * x[i];
  for (size_t width = kPartialSums / 2; width > 0; width /= 2) {
    for (size_t lane = 0; lane < width; ++lane) partial[lane] += partial[lane + width];
  }
  return partial[0];
}

float rms_scale(const float* x, float eps, size_t n) {
  return 1.0f / __builtin_sqrtf(sum_of_squares(x, n) / static_cast<float>(n) + eps);
}

void rms_norm(const float* x, const float* __restrict weight, float eps, size_t n, float* out) {
  const float scale = rms_scale(x, eps, n);
  // A copy first (it stays in the nearest cache): a loop over one array that it changes in place
  // needs no test for overlap.
  if (out != x) __builtin_memcpy(out, x, n * sizeof(float));
  for (size_t i = 0; i < n; ++i) out[i] = out[i] * scale * weight[i];
}

void rms_norm_bf16(const float* __restrict x, const float* __restrict weight, float eps, size_t n,
                   uint16_t* __restrict out) {
  const float scale = rms_scale(x, eps, n);
  for (size_t i = 0; i < n; ++i) out[i] = bf16_from_f32(x[i] * scale * weight[i]);
}

/// Magnitudes of floats as integers, which order like them, with infinity and NaN at the end.
[[gnu::always_inline]] inline uint32_t magnitude_bits(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof(bits));
  return bits & 0x7fffffffU;
}

/// Bytes u with scale · (u - 128) near value(i); returns the scale. Not finite: all bytes 128 and a
/// scale of NaN, so that the mistake reaches the result.
template <typename Value>
[[gnu::always_inline]] inline float quantise(size_t n, uint8_t* __restrict out, Value value) {
  constexpr float kLargest = 127.0f;
  constexpr float kRound = 12582912.0f + 128.0f;  // 1.5 · 2^23: adding it leaves no bits for a
  constexpr uint32_t kRoundBits = 0x4b400000U;    // fraction; and the zero point
  uint32_t largest_bits = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint32_t bits = magnitude_bits(value(i));
    largest_bits = largest_bits > bits ? largest_bits : bits;
  }
  float largest;
  __builtin_memcpy(&largest, &largest_bits, sizeof(largest));
  const bool finite = largest_bits < 0x7f800000U;
  // Below, 127 / largest is not finite.
  constexpr float kLeast = 1e-35f;
  const float to_integer = finite && largest > kLeast ? kLargest / largest : 0.0f;
  for (size_t i = 0; i < n; ++i) {
    const float shifted = (finite ? value(i) : 0.0f) * to_integer + kRound;
    uint32_t bits;
    __builtin_memcpy(&bits, &shifted, sizeof(bits));
    out[i] = static_cast<uint8_t>(bits - kRoundBits);
  }
  return finite ? largest / kLargest : __builtin_nanf("");
}

float rms_norm_int8(const float* __restrict x, const float* __restrict weight, float eps, size_t n,
                    uint8_t* __restrict out) {
  const float scale = rms_scale(x, eps, n);
  return quantise(n, out, [=](size_t i) { return x[i] * scale * weight[i]; });
}

void to_bf16(const float* __restrict x, size_t n, uint16_t* __restrict out) {
  for (size_t i = 0; i < n; ++i) out[i] = bf16_from_f32(x[i]);
}

float to_int8(const float* __restrict x, size_t n, uint8_t* __restrict out) {
  return quantise(n, out, [=](size_t i) { return x[i]; });
}

float bf16_to_int8(const uint16_t* __restrict x, size_t n, uint8_t* __restrict out) {
  return quantise(n, out, [=](size_t i) { return f32_from_bf16(x[i]); });
}

void dequantise(const int32_t* __restrict sums, const int32_t* __restrict zero_sums,
                const float* __restrict weight_scales, float row_scale, size_t n,
                float* __restrict out) {
  for (size_t i = 0; i < n; ++i) {
    out[i] = dequantised(sums[i], zero_sums[i], weight_scales[i], row_scale);
  }
}

void add(float* __restrict x, const float* __restrict y, size_t n) {
  for (size_t i = 0; i < n; ++i) x[i] += y[i];
}

template <typename Formula>
void gate(const float* __restrict gate, const float* __restrict up, size_t n,
          float* __restrict out) {
  for (size_t i = 0; i < n; ++i) out[i] = Formula::of(gate[i], up[i]);
}

void rope(float* __restrict head, const float* __restrict cos, const float* __restrict sin,
          size_t half) {
  float* __restrict const second = head + half;
  for (size_t i = 0; i < half; ++i) {
    const float a = head[i];
    const float b = second[i];
    head[i] = a * cos[i] - b * sin[i];
    second[i] = b * cos[i] + a * sin[i];
  }
}

}  // namespace

const RowLoops ESPALIER_ROW_LOOPS = {
    .rms_norm = rms_norm,
    .rms_norm_bf16 = rms_norm_bf16,
    .rms_norm_int8 = rms_norm_int8,
    .to_bf16 = to_bf16,
    .to_int8 = to_int8,
    .bf16_to_int8 = bf16_to_int8,
    .dequantise = dequantise,
    .add = add,
    .swiglu = gate<Swiglu>,
    .geglu = gate<Geglu>,
    .geglu_tanh = gate<GegluTanh>,
    .rope = rope,
};

}  // namespace espalier::engine
