// Formulas of single elements that loops over rows and over tiles share.
//
// Internal linkage is essential, as in fast_exp.h: files of different instruction sets include it.
#pragma once

#include <cstdint>

#include "engine/fast_exp.h"

namespace espalier::engine {
namespace {

/// silu(gate) · up: see swiglu() in engine/row_kernels.h.
[[gnu::always_inline]] inline float swiglu_of(float gate, float up) {
  return gate / (1.0f + fast_exp(-gate)) * up;
}

/// What a sum of int8 products stands for: see PanelScales in engine/gemm_loops.h.
[[gnu::always_inline]] inline float dequantised(int32_t sum, int32_t zero_sum, float weight_scale,
                                                float row_scale) {
  return static_cast<float>(sum - zero_sum) * weight_scale * row_scale;
}

}  // namespace
}  // namespace espalier::engine
