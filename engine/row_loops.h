// The innermost loops over rows of f32, compiled once for each instruction set
// (engine/row_loops.cpp) and chosen at run time.
//
// Thread contract: stateless functions and constant tables.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/cpu_features.h"

namespace espalier::engine {

/// One instruction set's versions. Equations: engine/row_kernels.h. Each
/// sums in an order that depends on n alone.
struct RowLoops {
  /// `out` may be `x`.
  void (*rms_norm)(const float* x, const float* weight, float eps, size_t n, float* out);
  /// The same, to bf16, and to bytes as engine/activations.h describes (returns the scale: NaN when
  /// a value is not finite).
  void (*rms_norm_bf16)(const float* x, const float* weight, float eps, size_t n, uint16_t* out);
  float (*rms_norm_int8)(const float* x, const float* weight, float eps, size_t n, uint8_t* out);
  void (*to_bf16)(const float* x, size_t n, uint16_t* out);
  float (*to_int8)(const float* x, size_t n, uint8_t* out);
  float (*bf16_to_int8)(const uint16_t* x, size_t n, uint8_t* out);
  /// out[i] = (sums[i] - zero_sums[i]) · weight_scales[i] · row_scale: a row of an int8 product.
  void (*dequantise)(const int32_t* sums, const int32_t* zero_sums, const float* weight_scales,
                     float row_scale, size_t n, float* out);
  void (*add)(float* x, const float* y, size_t n);
  /// One for each ActivationFunction.
  void (*swiglu)(const float* gate, const float* up, size_t n, float* out);
  void (*geglu)(const float* gate, const float* up, size_t n, float* out);
  void (*geglu_tanh)(const float* gate, const float* up, size_t n, float* out);
  void (*rope)(float* head, const float* cos, const float* sin, size_t half);
};

/// The loops for `isa`, which must be at most detected_isa().
const RowLoops& row_loops_for(Isa isa);

/// The loops for usable_isa().
const RowLoops& row_loops();

}  // namespace espalier::engine
