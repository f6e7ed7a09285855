// One step of the online softmax (Milakov & Gimelshein 2018; Dao et al. 2022) over a matrix of
// scores whose rows are slots and whose columns are lanes, so that all lanes go side by side.
//
// Included only by files that are compiled once for each instruction set; internal linkage is
// essential, see fast_exp.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/attention_loops.h"
#include "engine/float_vector.h"

namespace espalier::engine {
namespace {

/// Maximum and sums of kVectorFloats lanes.
struct SoftmaxLanes {
  FloatVector maximum, weight_sum, rescale;
};

/// Where the scores of kVectorFloats lanes are: slot s is `stride` floats after slot s - 1.
struct ScoreStrip {
  float* scores;
  size_t stride;
  size_t slots;
  FloatVector scale;

  [[gnu::always_inline]] FloatVector logit(size_t slot) const {
    return load(scores + slot * stride) * scale;
  }
};

[[gnu::always_inline]] inline IntVector sees(IntVector visible, size_t slot) {
  return static_cast<int32_t>(slot) < visible;
}

/// The smallest lane of `visible`.
[[gnu::always_inline]] inline size_t seen_by_all(IntVector visible) {
  int32_t smallest = visible[0];
  for (size_t lane = 1; lane < kVectorFloats; ++lane) {
    smallest = visible[lane] < smallest ? visible[lane] : smallest;
  }
  return static_cast<size_t>(smallest);
}

/// Replaces scores by Weights::put(weight of a slot, weight of the next), weights being
/// 2^(logit - new maximum), 0 for slots that a lane does not see.
template <typename Weights>
[[gnu::always_inline]] inline void softmax_strip(const ScoreStrip& strip, IntVector visible,
                                                 SoftmaxLanes& lanes) {
  const FloatVector none = broadcast(-__builtin_inff());
  size_t unmasked = seen_by_all(visible);
  unmasked = unmasked < strip.slots ? unmasked : strip.slots;

  FloatVector maximum = lanes.maximum;
  for (size_t slot = 0; slot < unmasked; ++slot) maximum = larger(strip.logit(slot), maximum);
  for (size_t slot = unmasked; slot < strip.slots; ++slot) {
    maximum = larger(sees(visible, slot) ? strip.logit(slot) : none, maximum);
  }
  lanes.rescale = exp2_of(lanes.maximum - maximum);
  lanes.maximum = maximum;

  FloatVector sum = lanes.weight_sum * lanes.rescale;
  size_t slot = 0;
  for (; slot + 2 <= unmasked; slot += 2) {
    const FloatVector first = exp2_of(strip.logit(slot) - maximum);
    const FloatVector second = exp2_of(strip.logit(slot + 1) - maximum);
    sum = sum + first + second;
    Weights::put(strip, slot, first, second);
  }
  for (; slot < strip.slots; slot += 2) {
    const auto weight = [&](size_t s) {
      const FloatVector w = exp2_of(strip.logit(s) - maximum);
      return sees(visible, s) ? w : FloatVector{};
    };
    const FloatVector first = weight(slot);
    const FloatVector second = slot + 1 < strip.slots ? weight(slot + 1) : FloatVector{};
    sum = sum + first + second;
    Weights::put(strip, slot, first, second);
  }
  lanes.weight_sum = sum;
}

/// The whole step: tile.scores is (step.slots × lanes, rows `stride` apart), column 0 being
/// step.first_lane, as wide as whole vectors. An odd number of slots is followed by weights of 0.
template <typename Weights>
void softmax(const AttentionTile& tile, const AttentionStep& step, size_t stride, float scale) {
  const auto run = [&](size_t lane, size_t bytes) __attribute__((always_inline)) {
    const size_t at = step.first_lane + lane;
    SoftmaxLanes lanes = {FloatVector{}, FloatVector{}, FloatVector{}};
    IntVector visible = IntVector{} + static_cast<int32_t>(kKeyRange);
    __builtin_memcpy(&lanes.maximum, tile.maximum + at, bytes);
    __builtin_memcpy(&lanes.weight_sum, tile.weight_sum + at, bytes);
    __builtin_memcpy(&visible, step.visible + lane, bytes);
    const ScoreStrip strip = {tile.scores + lane, stride, step.slots, broadcast(scale)};
    softmax_strip<Weights>(strip, visible, lanes);
    __builtin_memcpy(tile.maximum + at, &lanes.maximum, bytes);
    __builtin_memcpy(tile.weight_sum + at, &lanes.weight_sum, bytes);
    __builtin_memcpy(tile.rescale + at, &lanes.rescale, bytes);
  };
  size_t lane = 0;
  for (; lane + kVectorFloats <= step.lanes; lane += kVectorFloats) run(lane, sizeof(FloatVector));
  // A part of a vector, because the lanes that fill it up belong to other chains.
  if (lane < step.lanes) run(lane, (step.lanes - lane) * sizeof(float));
}

}  // namespace
}  // namespace espalier::engine
