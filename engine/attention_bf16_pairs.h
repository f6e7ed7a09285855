// Pairs of bf16 in four bytes, as vdpbf16ps and AMX multiply them.
//
// Included only by files that are compiled with AVX-512 BF16; internal linkage is essential, see
// fast_exp.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/attention_packing.h"
#include "engine/attention_softmax.h"

namespace espalier::engine {
namespace {

constexpr size_t kVectorBf16 = 32;

[[gnu::always_inline]] inline __m512bh bit_cast_to_bf16(FloatVector v) {
  __m512bh bits;
  __builtin_memcpy(&bits, &v, sizeof(bits));
  return bits;
}

/// Two slots' weights become one row of pairs, in the row of half the slot's number: softmax() has
/// read that one already.
struct PairedWeights {
  [[gnu::always_inline]] static void put(const ScoreStrip& strip, size_t slot, FloatVector first,
                                         FloatVector second) {
    const __m512bh rounded = _mm512_cvtne2ps_pbh(second, first);
    __m512i halves;  // all first weights, then all second
    __builtin_memcpy(&halves, &rounded, sizeof(halves));
    const __m512i even = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(halves));
    const __m512i odd = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(halves, 1));
    const __m512i pairs = _mm512_or_si512(even, _mm512_slli_epi32(odd, 16));
    _mm512_storeu_si512(strip.scores + slot / 2 * strip.stride, pairs);
  }
};

/// Queries are transposed in pairs; head_dim is even.
inline void pack_paired_queries(const AttentionTile& tile, const std::byte* const* lanes) {
  transpose_dwords(lanes, tile.lanes, tile.head_dim / 2, tile.queries, tile.lane_stride);
}

/// For vpermt2w: element i of one row, then of another, for the lower 16 elements of both.
struct PairOrder {
  alignas(64) uint16_t from[kVectorBf16];

  constexpr PairOrder() : from() {
    for (uint16_t i = 0; i < kVectorBf16; ++i) {
      from[i] = static_cast<uint16_t>(i / 2 + (i % 2) * kVectorBf16);
    }
  }
};
constexpr PairOrder kPairOrder;

/// tile.values: (pairs of slots × padded_dim) pairs, the slot after an odd number of them being 0.
inline void pair_values(const AttentionTile& tile, const AttentionStep& step) {
  const __m512i low = _mm512_load_si512(kPairOrder.from);
  const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
  for (size_t slot = 0; slot < step.slots; slot += 2) {
    const std::byte* const first = step.values[slot];
    const bool has_second = slot + 1 < step.slots;
    const std::byte* const second = has_second ? step.values[slot + 1] : first;
    float* const out = tile.values + slot / 2 * tile.padded_dim;
    for (size_t i = 0; i < tile.padded_dim; i += kVectorBf16) {
      const size_t rest = tile.head_dim > i ? tile.head_dim - i : 0;
      const __mmask32 mask =
          rest >= kVectorBf16 ? ~__mmask32{0} : static_cast<__mmask32>((1U << rest) - 1U);
      const __m512i a = _mm512_maskz_loadu_epi16(mask, first + 2 * i);
      const __m512i b = _mm512_maskz_loadu_epi16(has_second ? mask : 0, second + 2 * i);
      _mm512_storeu_si512(out + i, _mm512_permutex2var_epi16(a, low, b));
      _mm512_storeu_si512(out + i + kVectorBf16 / 2, _mm512_permutex2var_epi16(a, high, b));
    }
  }
}

}  // namespace
}  // namespace espalier::engine
