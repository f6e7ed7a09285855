// Weights as signed bytes, scaled per output: what int8 backends pack.
//
// Thread contract: a stateless function.
#pragma once

#include <cstdint>
#include <span>

namespace espalier::engine {

/// weights[i] ≈ scale · integers[i].
struct QuantisedOutput {
  float scale = 0;  // NaN when a weight is not finite, so that the mistake reaches every result
  /// kInt8ZeroPoint · Σ integers: what the zero point of activations adds to a sum of products.
  int32_t zero_sum = 0;
};

/// Rounds one output's weights to multiples of 1/127 of their largest magnitude. `integers` is as
/// long as `weights`; all of them are zeros when the largest is below 1e-35 or not finite.
QuantisedOutput quantise_weights(std::span<const float> weights, std::span<int8_t> integers);

}  // namespace espalier::engine
