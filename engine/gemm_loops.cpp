// Compiled once for each instruction set, with ESPALIER_GEMM_LOOPS naming the table that results.
// It must not use inline functions of other headers: see fast_exp.h.
#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "engine/bf16.h"
#include "engine/gemm_loops_tables.h"
#include "engine/row_formulas.h"

namespace espalier::engine {
namespace {

// A vector register, and how many of them and rows of x make a tile that fits the register file.
#if defined(__AVX512F__)
constexpr size_t kVectorBytes = 64;
constexpr size_t kTileRows = 12;
#elif defined(__AVX2__)
constexpr size_t kVectorBytes = 32;
constexpr size_t kTileRows = 6;
#else
constexpr size_t kVectorBytes = 16;
constexpr size_t kTileRows = 6;
#endif
constexpr size_t kVectors = 2;
constexpr size_t kCacheLine = 64;
constexpr size_t kLanes = kVectorBytes / 4;
/// Outputs of one pass over the inputs.
constexpr size_t kPassWidth = kVectors * kLanes;
static_assert(kPanelWidth % kPassWidth == 0);

using Floats [[gnu::vector_size(kVectorBytes)]] = float;
using Words [[gnu::vector_size(kVectorBytes)]] = uint32_t;
using Ints [[gnu::vector_size(kVectorBytes)]] = int32_t;

template <typename Vector>
[[gnu::always_inline]] inline Vector load(const void* from) {
  Vector vector;
  __builtin_memcpy(&vector, from, sizeof(vector));
  return vector;
}

[[gnu::always_inline]] inline uint32_t load_word(const std::byte* from) {
  uint32_t word;
  __builtin_memcpy(&word, from, sizeof(word));
  return word;
}

[[gnu::always_inline]] inline Words splat(uint32_t word) { return Words{} + word; }

/// sum + a · b, fused where there is an instruction for it: spelt out, because tiles of different
/// heights are compiled apart and must give the same bits.
[[gnu::always_inline]] inline Floats multiply_add(Floats a, Floats b, Floats sum) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, sum);
#elif defined(__FMA__)
  return _mm256_fmadd_ps(a, b, sum);
#else
  return sum + a * b;
#endif
}

/// How one format multiplies: Sum is what is summed up, accumulate() adds one group of inputs.
struct F32 {
  using Sum = Floats;
  [[gnu::always_inline]] static Sum accumulate(Sum sum, uint32_t x, Words w) {
    return multiply_add(reinterpret_cast<Floats>(splat(x)), reinterpret_cast<Floats>(w), sum);
  }
};

struct Bf16 {
  using Sum = Floats;
  [[gnu::always_inline]] static Sum accumulate(Sum sum, uint32_t x, Words w) {
#if defined(__AVX512BF16__)
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(splat(x)),
                            reinterpret_cast<__m512bh>(w));
#else
    const uint32_t kUpper = 0xffff0000U;
    sum = multiply_add(reinterpret_cast<Floats>(splat(x << 16U)),
                       reinterpret_cast<Floats>(w << 16U), sum);
    return multiply_add(reinterpret_cast<Floats>(splat(x & kUpper)),
                        reinterpret_cast<Floats>(w & kUpper), sum);
#endif
  }
};

/// Bytes of x are unsigned, those of w signed.
struct Int8 {
  using Sum = Ints;
  [[gnu::always_inline]] static Sum accumulate(Sum sum, uint32_t x, Words w) {
#if defined(__AVX512VNNI__)
    return reinterpret_cast<Ints>(_mm512_dpbusd_epi32(reinterpret_cast<__m512i>(sum),
                                                      reinterpret_cast<__m512i>(splat(x)),
                                                      reinterpret_cast<__m512i>(w)));
#elif defined(__x86_64__)
    // Bytes 0 and 2, then 1 and 3, as pairs of 16-bit numbers: no instruction here saturates.
    using Shorts [[gnu::vector_size(kVectorBytes)]] = int16_t;
    const Shorts w_even = reinterpret_cast<Shorts>(w) << 8 >> 8;
    const Shorts w_odd = reinterpret_cast<Shorts>(w) >> 8;
    sum += add_pairs(splat(x & 0x00ff00ffU), reinterpret_cast<Words>(w_even));
    return sum + add_pairs(splat(x >> 8U & 0x00ff00ffU), reinterpret_cast<Words>(w_odd));
#else
    for (uint32_t byte = 0; byte < 4; ++byte) {
      const Ints weight = reinterpret_cast<Ints>(w << (24U - 8U * byte)) >> 24;
      sum += weight * static_cast<int32_t>(x >> (8U * byte) & 0xffU);
    }
    return sum;
#endif
  }

#if defined(__x86_64__) && !defined(__AVX512VNNI__)
  [[gnu::always_inline]] static Ints add_pairs(Words a, Words b) {
#if defined(__AVX512F__)
    return reinterpret_cast<Ints>(
        _mm512_madd_epi16(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif defined(__AVX2__)
    return reinterpret_cast<Ints>(
        _mm256_madd_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#else
    return reinterpret_cast<Ints>(
        _mm_madd_epi16(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#endif
  }
#endif
};

/// kRows × kPassWidth sums in registers, over all groups of inputs.
template <typename Format, size_t kRows>
void multiply_rows(const std::byte* x, size_t x_stride, const std::byte* panel, size_t groups,
                   ReadAhead ahead, std::byte* tile) {
  typename Format::Sum sums[kRows][kVectors] = {};
  for (size_t group = 0; group < groups; ++group) {
    Words w[kVectors];
#pragma GCC unroll 2
    for (size_t v = 0; v < kVectors; ++v) w[v] = load<Words>(panel + v * kVectorBytes);
#pragma GCC unroll 12
    for (size_t r = 0; r < kRows; ++r) {
      const uint32_t group_of_x = load_word(x + r * x_stride);
#pragma GCC unroll 2
      for (size_t v = 0; v < kVectors; ++v) {
        sums[r][v] = Format::accumulate(sums[r][v], group_of_x, w[v]);
      }
    }
    x += 4;
    panel += 4 * kPanelWidth;
    for (size_t line = 0; line < ahead.lines; ++line) {
      __builtin_prefetch(ahead.from, 0, 2);
      ahead.from += kCacheLine;
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    __builtin_memcpy(tile + 4 * r * kPanelWidth, sums[r], sizeof(sums[r]));
  }
}

template <typename Format, size_t kRows = kTileRows>
void multiply_tile(const std::byte* x, size_t x_stride, size_t rows, const std::byte* panel,
                   size_t groups, ReadAhead ahead, void* tile) {
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      multiply_tile<Format, kRows - 1>(x, x_stride, rows, panel, groups, ahead, tile);
      return;
    }
  }
  for (size_t column = 0; column < kPanelWidth; column += kPassWidth) {
    multiply_rows<Format, kRows>(x, x_stride, panel + 4 * column, groups,
                                 column == 0 ? ahead : ReadAhead{},
                                 static_cast<std::byte*>(tile) + 4 * column);
  }
}

void nothing() {}

void dequantise(void* tile, size_t rows, const PanelScales& scales, const float* row_scales) {
  for (size_t r = 0; r < rows; ++r) {
    std::byte* const row = static_cast<std::byte*>(tile) + 4 * r * kPanelWidth;
    int32_t sums[kPanelWidth];
    float values[kPanelWidth];
    __builtin_memcpy(sums, row, sizeof(sums));
    for (size_t c = 0; c < kPanelWidth; ++c) {
      values[c] = dequantised(sums[c], scales.zero_sums[c], scales.weight_scales[c], row_scales[r]);
    }
    __builtin_memcpy(row, values, sizeof(values));
  }
}

template <bool kAdding>
void write(const float* tile, size_t rows, size_t first, size_t columns, float* y,
           size_t y_stride) {
  for (size_t r = 0; r < rows; ++r) {
    const float* __restrict from = tile + r * kPanelWidth;
    float* __restrict to = y + r * y_stride;
    if (columns == kPanelWidth) {  // nearly always: a loop of a known length
      for (size_t c = 0; c < kPanelWidth; ++c) to[c] = kAdding ? to[c] + from[c] : from[c];
    } else {
      for (size_t c = 0; c < columns; ++c) {
        to[c] = kAdding ? to[c] + from[first + c] : from[first + c];
      }
    }
  }
}

constexpr size_t kHalf = kPanelWidth / 2;

void add_bias(float* tile, size_t rows, const float* bias) {
  for (size_t r = 0; r < rows; ++r) {
    float* __restrict row = tile + r * kPanelWidth;
    for (size_t c = 0; c < kPanelWidth; ++c) row[c] += bias[c];
  }
}

template <typename Formula>
[[gnu::always_inline]] inline void gate_row(const float* __restrict tile, float* __restrict out) {
  for (size_t i = 0; i < kHalf; ++i) {
    out[i] = Formula::of(tile[i], tile[kHalf + i]);
  }
}

template <typename Formula>
void gate_f32(const float* tile, size_t rows, size_t columns, std::byte* y, size_t y_stride) {
  for (size_t r = 0; r < rows; ++r) {
    float values[kHalf];
    gate_row<Formula>(tile + r * kPanelWidth, values);
    if (columns == kHalf) {
      __builtin_memcpy(y + r * y_stride, values, sizeof(values));
    } else {
      __builtin_memcpy(y + r * y_stride, values, columns * sizeof(float));
    }
  }
}

template <typename Formula>
void gate_bf16(const float* tile, size_t rows, size_t columns, std::byte* y, size_t y_stride) {
  for (size_t r = 0; r < rows; ++r) {
    float values[kHalf];
    uint16_t rounded[kHalf];
    gate_row<Formula>(tile + r * kPanelWidth, values);
    for (size_t i = 0; i < kHalf; ++i) rounded[i] = bf16_from_f32(values[i]);
    if (columns == kHalf) {
      __builtin_memcpy(y + r * y_stride, rounded, sizeof(rounded));
    } else {
      __builtin_memcpy(y + r * y_stride, rounded, columns * sizeof(uint16_t));
    }
  }
}

}  // namespace

const GemmLoops ESPALIER_GEMM_LOOPS = {
    .f32 = {multiply_tile<F32>, kTileRows},
    .bf16 = {multiply_tile<Bf16>, kTileRows},
    .int8 = {multiply_tile<Int8>, kTileRows},
    .begin = nothing,
    .end = nothing,
    .dequantise = dequantise,
    .store = write<false>,
    .add = write<true>,
    .add_bias = add_bias,
    .swiglu = {gate_f32<Swiglu>, gate_bf16<Swiglu>},
    .geglu = {gate_f32<Geglu>, gate_bf16<Geglu>},
    .geglu_tanh = {gate_f32<GegluTanh>, gate_bf16<GegluTanh>},
};

}  // namespace espalier::engine
