// How queries, keys and values are brought into the order that the products of attention read, and
// results out of it.
//
// Included only by files that are compiled once for each instruction set; internal linkage is
// essential, see fast_exp.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/attention_loops.h"

namespace espalier::engine {
namespace {

using Dwords4 [[gnu::vector_size(16)]] = float;
using DwordIndex4 [[gnu::vector_size(16)]] = int32_t;

[[gnu::always_inline]] inline Dwords4 load_dwords(const std::byte* from) {
  Dwords4 v;
  __builtin_memcpy(&v, from, sizeof(v));
  return v;
}

[[gnu::always_inline]] inline void store_dwords(float* to, Dwords4 v) {
  __builtin_memcpy(to, &v, sizeof(v));
}

#if defined(__clang__)
#define ESPALIER_SHUFFLE4(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define ESPALIER_SHUFFLE4(a, b, i, j, k, l) __builtin_shuffle(a, b, DwordIndex4{i, j, k, l})
#endif

/// out (columns × rows, `stride` apart) = the transpose of `rows` rows of `columns` dwords.
/// Columns of `out` up to the next multiple of four are overwritten.
inline void transpose_dwords(const std::byte* const* rows, size_t row_count, size_t columns,
                             float* out, size_t stride) {
  for (size_t row = 0; row < row_count; row += 4) {
    const std::byte* from[4];
    // Repeats the last row where there are fewer than four.
    for (size_t r = 0; r < 4; ++r) from[r] = rows[row + r < row_count ? row + r : row_count - 1];
    size_t column = 0;
    for (; column + 4 <= columns; column += 4) {
      const size_t at = column * sizeof(float);
      const Dwords4 a = load_dwords(from[0] + at);
      const Dwords4 b = load_dwords(from[1] + at);
      const Dwords4 c = load_dwords(from[2] + at);
      const Dwords4 d = load_dwords(from[3] + at);
      const Dwords4 ab_low = ESPALIER_SHUFFLE4(a, b, 0, 4, 1, 5);
      const Dwords4 ab_high = ESPALIER_SHUFFLE4(a, b, 2, 6, 3, 7);
      const Dwords4 cd_low = ESPALIER_SHUFFLE4(c, d, 0, 4, 1, 5);
      const Dwords4 cd_high = ESPALIER_SHUFFLE4(c, d, 2, 6, 3, 7);
      float* const to = out + column * stride + row;
      store_dwords(to, ESPALIER_SHUFFLE4(ab_low, cd_low, 0, 1, 4, 5));
      store_dwords(to + stride, ESPALIER_SHUFFLE4(ab_low, cd_low, 2, 3, 6, 7));
      store_dwords(to + 2 * stride, ESPALIER_SHUFFLE4(ab_high, cd_high, 0, 1, 4, 5));
      store_dwords(to + 3 * stride, ESPALIER_SHUFFLE4(ab_high, cd_high, 2, 3, 6, 7));
    }
    for (; column < columns; ++column) {
      for (size_t r = 0; r < 4; ++r) {
        __builtin_memcpy(out + column * stride + row + r, from[r] + column * sizeof(float),
                         sizeof(float));
      }
    }
  }
}

#undef ESPALIER_SHUFFLE4

/// Copies rows of `bytes` bytes next to each other, `padded_bytes` apart, zeros between them.
inline void copy_rows(const std::byte* const* rows, size_t count, size_t bytes, size_t padded_bytes,
                      std::byte* out) {
  for (size_t row = 0; row < count; ++row) {
    __builtin_memcpy(out, rows[row], bytes);
    __builtin_memset(out + bytes, 0, padded_bytes - bytes);
    out += padded_bytes;
  }
}

/// bf16 is the upper half of an f32.
[[gnu::always_inline]] inline float widened(uint16_t bf16) {
  const uint32_t bits = static_cast<uint32_t>(bf16) << 16;
  float x;
  __builtin_memcpy(&x, &bits, sizeof(x));
  return x;
}

/// The upper half of the result is `x` in bf16, rounded to nearest even; NaN stays NaN.
[[gnu::always_inline]] inline uint32_t rounded_bits(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof(bits));
  const uint32_t rounded = bits + 0x7fffU + (bits >> 16 & 1U);
  const uint32_t quiet_nan = bits | 0x400000U;
  return (bits & 0x7fffffffU) > 0x7f800000U ? quiet_nan : rounded;
}

/// Like copy_rows(), of `columns` bf16 that become f32.
inline void widen_rows(const std::byte* const* rows, size_t count, size_t columns,
                       size_t padded_columns, float* out) {
  for (size_t row = 0; row < count; ++row) {
    const std::byte* const from = rows[row];
    for (size_t i = 0; i < columns; ++i) {
      uint16_t bf16;
      __builtin_memcpy(&bf16, from + 2 * i, sizeof(bf16));
      out[i] = widened(bf16);
    }
    for (size_t i = columns; i < padded_columns; ++i) out[i] = 0.0f;
    out += padded_columns;
  }
}

/// out = sums · norm. Adding 0 makes zeros positive: the sign of a zero, and nothing else, depends
/// on how many weights of 0 were added.
[[gnu::always_inline]] inline float finished(float sum, float norm) { return sum * norm + 0.0f; }

inline void write_f32(const AttentionTile& tile, size_t lane, std::byte* __restrict out) {
  const float norm = 1.0f / tile.weight_sum[lane];
  const float* __restrict const sums = tile.sums + lane * tile.padded_dim;
  const size_t head_dim = tile.head_dim;
  for (size_t i = 0; i < head_dim; ++i) {
    const float x = finished(sums[i], norm);
    __builtin_memcpy(out + i * sizeof(x), &x, sizeof(x));
  }
}

inline void write_bf16(const AttentionTile& tile, size_t lane, std::byte* __restrict out) {
  const float norm = 1.0f / tile.weight_sum[lane];
  const float* __restrict const sums = tile.sums + lane * tile.padded_dim;
  const size_t head_dim = tile.head_dim;
  for (size_t i = 0; i < head_dim; ++i) {
    const auto bf16 = static_cast<uint16_t>(rounded_bits(finished(sums[i], norm)) >> 16);
    __builtin_memcpy(out + i * sizeof(bf16), &bf16, sizeof(bf16));
  }
}

}  // namespace
}  // namespace espalier::engine
