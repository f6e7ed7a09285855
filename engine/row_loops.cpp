// Compiled once for each instruction set, with ESPALIER_ROW_LOOPS naming the table that results. It
// must not use inline functions of other headers: see fast_exp.h.
#include <cstddef>

#include "engine/fast_exp.h"
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

void rms_norm(const float* x, const float* __restrict weight, float eps, size_t n, float* out) {
  const float scale = 1.0f / __builtin_sqrtf(sum_of_squares(x, n) / static_cast<float>(n) + eps);
  // A copy first (it stays in the nearest cache): a loop over one array that it changes in place
  // needs no test for overlap.
  if (out != x) __builtin_memcpy(out, x, n * sizeof(float));
  for (size_t i = 0; i < n; ++i) out[i] = out[i] * scale * weight[i];
}

void add(float* __restrict x, const float* __restrict y, size_t n) {
  for (size_t i = 0; i < n; ++i) x[i] += y[i];
}

void swiglu(const float* __restrict gate, const float* __restrict up, size_t n,
            float* __restrict out) {
  for (size_t i = 0; i < n; ++i) out[i] = gate[i] / (1.0f + fast_exp(-gate[i])) * up[i];
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

/// What is subtracted from scores. A lane without any key so far has no maximum: with 0 in its
/// place its scores, all -infinity, become e^-infinity = 0 instead of NaN.
[[gnu::always_inline]] inline float reference_of(float maximum) {
  return maximum == -__builtin_inff() ? 0.0f : maximum;
}

void online_softmax(float* __restrict scores, size_t stride, size_t keys, size_t lanes,
                    float* __restrict maximum, float* __restrict sum, float* __restrict rescale) {
  for (size_t lane = 0; lane < lanes; ++lane) rescale[lane] = maximum[lane];
  for (size_t key = 0; key < keys; ++key) {
    const float* __restrict const row = scores + key * stride;
    for (size_t lane = 0; lane < lanes; ++lane) {
      maximum[lane] = maximum[lane] < row[lane] ? row[lane] : maximum[lane];
    }
  }
  for (size_t lane = 0; lane < lanes; ++lane) {
    rescale[lane] = fast_exp(rescale[lane] - reference_of(maximum[lane]));
    sum[lane] *= rescale[lane];
  }
  for (size_t key = 0; key < keys; ++key) {
    float* __restrict const row = scores + key * stride;
    for (size_t lane = 0; lane < lanes; ++lane) {
      const float weight = fast_exp(row[lane] - reference_of(maximum[lane]));
      row[lane] = weight;
      sum[lane] += weight;
    }
  }
}

}  // namespace

const RowLoops ESPALIER_ROW_LOOPS = {rms_norm, add, swiglu, rope, online_softmax};

}  // namespace espalier::engine
