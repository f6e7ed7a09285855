// Matrices of random numbers, the same in every run.
#pragma once

#include <cstddef>
#include <random>
#include <vector>

#include "engine/mat_view.h"

namespace espalier::engine {

/// `count` numbers from a normal distribution around 0.
inline std::vector<float> random_floats(size_t count, uint32_t seed, float deviation = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> out(count);
  for (float& value : out) value = normal(random);
  return out;
}

}  // namespace espalier::engine
