// The innermost loops over rows of f32, compiled once for each instruction set
// (engine/row_loops.cpp) and chosen at run time.
//
// Thread contract: stateless functions and constant tables.
#pragma once

#include <cstddef>

#include "engine/cpu_features.h"

namespace espalier::engine {

/// One instruction set's versions. Equations: engine/row_kernels.h, engine/trie_attention.cpp. Each
/// sums in an order that depends on n alone.
struct RowLoops {
  /// `out` may be `x`.
  void (*rms_norm)(const float* x, const float* weight, float eps, size_t n, float* out);
  void (*add)(float* x, const float* y, size_t n);
  void (*swiglu)(const float* gate, const float* up, size_t n, float* out);
  void (*rope)(float* head, const float* cos, const float* sin, size_t half);

  /// One step of the online softmax (Milakov & Gimelshein 2018, "Online normalizer calculation for
  /// softmax"; Dao et al. 2022, "FlashAttention") for `lanes` independent queries, over `keys`
  /// keys. `scores` (keys × lanes, rows `stride` apart) holds logits, -infinity for keys that a
  /// lane cannot see, and is replaced by e^(score - new maximum). Per lane: `maximum` (at first
  /// -infinity) and `sum` (at first 0) of e^(score - maximum) move on; `rescale` becomes what sums
  /// so far must be multiplied by, e^(old - new maximum). For a lane that sees no key nothing
  /// changes, and rescale is exactly 1 (0 if it has never seen one). Each lane adds its keys one
  /// after the other, so that keys of other lanes between them, which count exactly 0, do not
  /// change a bit.
  void (*online_softmax)(float* scores, size_t stride, size_t keys, size_t lanes, float* maximum,
                         float* sum, float* rescale);
};

/// The loops for `isa`, which must be at most detected_isa().
const RowLoops& row_loops_for(Isa isa);

/// The loops for usable_isa().
const RowLoops& row_loops();

}  // namespace espalier::engine
