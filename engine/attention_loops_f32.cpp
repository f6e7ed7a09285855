// Compiled once for each instruction set, with ESPALIER_ATTENTION_LOOPS naming the tables that
// result. It must not use inline functions of other headers: see fast_exp.h.
//
// Attention in f32; of bf16 by widening it to f32, for CPUs that cannot multiply bf16.
#include <cstddef>

#include "engine/attention_loops_tables.h"
#include "engine/attention_packing.h"
#include "engine/attention_products.h"
#include "engine/attention_softmax.h"

namespace espalier::engine {
namespace {

/// Weights stay where their scores were.
struct F32Weights {
  [[gnu::always_inline]] static void put(const ScoreStrip& strip, size_t slot, FloatVector first,
                                         FloatVector second) {
    store(strip.scores + slot * strip.stride, first);
    store(strip.scores + (slot + 1) * strip.stride, second);
  }
};

/// The same, rounded to bf16.
struct RoundedWeights {
  [[gnu::always_inline]] static FloatVector rounded(FloatVector weight) {
    FloatVector out;
    for (size_t lane = 0; lane < kVectorFloats; ++lane) {
      const uint32_t bits = rounded_bits(weight[lane]) & 0xffff0000U;
      float x;
      __builtin_memcpy(&x, &bits, sizeof(x));
      out[lane] = x;
    }
    return out;
  }
  [[gnu::always_inline]] static void put(const ScoreStrip& strip, size_t slot, FloatVector first,
                                         FloatVector second) {
    F32Weights::put(strip, slot, rounded(first), rounded(second));
  }
};

size_t whole_vectors(size_t lanes) {
  return (lanes + kVectorFloats - 1) / kVectorFloats * kVectorFloats;
}

template <typename Weights>
void attend_to(ScatteredRows keys, const AttentionTile& tile, const AttentionStep& step,
               float scale) {
  const size_t width = whole_vectors(step.lanes);
  multiply<F32Product>(keys, step.slots, tile.head_dim,
                       RightMatrix{tile.queries + step.first_lane, tile.lane_stride}, width, Zero{},
                       OutMatrix{tile.scores, width});
  softmax<Weights>(tile, step, width, scale);
  multiply<F32Product>(Columns{tile.scores, width}, step.lanes, step.slots,
                       RightMatrix{tile.values, tile.padded_dim}, tile.padded_dim,
                       Rescaled{tile.rescale + step.first_lane},
                       OutMatrix{tile.sums + step.first_lane * tile.padded_dim, tile.padded_dim});
}

void pack_f32_queries(const AttentionTile& tile, const std::byte* const* lanes) {
  transpose_dwords(lanes, tile.lanes, tile.head_dim, tile.queries, tile.lane_stride);
}

void attend_f32(const AttentionTile& tile, const AttentionStep& step, float scale) {
  // In place, rows of a fused QKV product lie a power of two apart and throw each other out of the
  // cache. Keys are read once, values once for every few lanes.
  copy_rows(step.values, step.slots, tile.head_dim * sizeof(float), tile.padded_dim * sizeof(float),
            reinterpret_cast<std::byte*>(tile.values));
  attend_to<F32Weights>(ScatteredRows{step.keys}, tile, step, scale);
}

void pack_bf16_queries(const AttentionTile& tile, const std::byte* const* lanes) {
  for (size_t lane = 0; lane < tile.lanes; ++lane) {
    for (size_t i = 0; i < tile.head_dim; ++i) {
      uint16_t bf16;
      __builtin_memcpy(&bf16, lanes[lane] + 2 * i, sizeof(bf16));
      tile.queries[i * tile.lane_stride + lane] = widened(bf16);
    }
  }
}

void attend_bf16(const AttentionTile& tile, const AttentionStep& step, float scale) {
  widen_rows(step.keys, step.slots, tile.head_dim, tile.padded_dim, tile.keys);
  widen_rows(step.values, step.slots, tile.head_dim, tile.padded_dim, tile.values);
  const std::byte* keys[kKeyRange];
  for (size_t slot = 0; slot < step.slots; ++slot) {
    keys[slot] = reinterpret_cast<const std::byte*>(tile.keys + slot * tile.padded_dim);
  }
  attend_to<RoundedWeights>(ScatteredRows{keys}, tile, step, scale);
}

}  // namespace

const F32AttentionLoops ESPALIER_ATTENTION_LOOPS = {
    .f32 = {pack_f32_queries, attend_f32, write_f32},
    .bf16 = {pack_bf16_queries, attend_bf16, write_bf16},
};

}  // namespace espalier::engine
