// Formulas of single elements that loops over rows and over tiles share.
//
// Internal linkage is essential, as in fast_exp.h: files of different instruction sets include it.
#pragma once

#include <cstdint>

#include "engine/fast_exp.h"

namespace espalier::engine {
namespace {

// What a gated MLP makes of a gate and the value that it multiplies, by its activation function:
// see gate() in engine/row_kernels.h.

struct Swiglu {
  [[gnu::always_inline]] static float of(float gate, float up) {
    return gate / (1.0f + fast_exp(-gate)) * up;
  }
};

/// (1 + erf(z / √2)) / 2 is the normal distribution, whose tail beyond |z| is computed on its own,
/// so that nothing cancels: within 1.5e-7 (Abramowitz & Stegun 1964, formula 7.1.26).
struct Geglu {
  [[gnu::always_inline]] static float of(float gate, float up) {
    constexpr float kP = 0.3275911f * 0.70710678f;  // of |z| / √2
    const float magnitude = gate < 0.0f ? -gate : gate;
    const float t = 1.0f / (1.0f + kP * magnitude);
    float p = 1.061405429f;
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    const float tail = 0.5f * p * t * fast_exp(-0.5f * gate * gate);
    return (gate < 0.0f ? gate * tail : gate - gate * tail) * up;
  }
};

/// (1 + tanh(u)) / 2 = 1 / (1 + e^-2u).
struct GegluTanh {
  [[gnu::always_inline]] static float of(float gate, float up) {
    constexpr float kMinusTwoRootTwoOverPi = -1.5957691216057308f;
    const float exponent = kMinusTwoRootTwoOverPi * gate * (1.0f + 0.044715f * gate * gate);
    return gate / (1.0f + fast_exp(exponent)) * up;
  }
};

/// What a sum of int8 products stands for: see PanelScales in engine/gemm_loops.h.
[[gnu::always_inline]] inline float dequantised(int32_t sum, int32_t zero_sum, float weight_scale,
                                                float row_scale) {
  return static_cast<float>(sum - zero_sum) * weight_scale * row_scale;
}

}  // namespace
}  // namespace espalier::engine
