#include "engine/weight_quantisation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/activations.h"

namespace espalier::engine {
namespace {

/// The largest value of a signed byte that has a negative twin.
constexpr float kInt8Max = 127.0f;
/// Below, 127 / largest is not finite.
constexpr float kLeast = 1e-35f;

}  // namespace

QuantisedOutput quantise_weights(std::span<const float> weights, std::span<int8_t> integers) {
  std::ranges::fill(integers, int8_t{0});
  float largest = 0;
  for (const float weight : weights) {
    if (!std::isfinite(weight)) return {.scale = std::numeric_limits<float>::quiet_NaN()};
    largest = std::max(largest, std::abs(weight));
  }
  if (largest < kLeast) return {};
  const float to_integer = kInt8Max / largest;
  int32_t sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    integers[i] = static_cast<int8_t>(std::lrint(weights[i] * to_integer));
    sum += integers[i];
  }
  return {.scale = largest / kInt8Max, .zero_sum = kInt8ZeroPoint * sum};
}

}  // namespace espalier::engine
