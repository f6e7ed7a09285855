// The naive twin of engine/bf16.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace espalier::reference {

/// The number with 8 significant bits that is nearest to x, by arithmetic instead of bits; of two
/// that are equally near, the one whose last bit is 0. What is half a step or more beyond the
/// largest is infinity.
inline float to_bf16(float x) {
  if (!std::isfinite(x) || x == 0) return x;
  constexpr int kSignificantBits = 8;
  constexpr int kLeastExponent = -126 - (kSignificantBits - 1);  // of the subnormals' last bit
  const double value = x;
  const double step =
      std::ldexp(1.0, std::max(std::ilogb(value) - (kSignificantBits - 1), kLeastExponent));
  const double steps = value / step;  // exact: a power of two
  double rounded = std::floor(steps);
  const double above = steps - rounded;
  if (above > 0.5 || (above == 0.5 && std::fmod(rounded, 2.0) != 0)) rounded += 1;
  const double result = rounded * step;
  if (std::abs(result) > std::numeric_limits<float>::max()) {
    return std::copysign(std::numeric_limits<float>::infinity(), x);
  }
  // Unlike the product, copysign() keeps the sign of a zero.
  return std::copysign(static_cast<float>(result), x);
}

inline std::vector<float> to_bf16(std::span<const float> values) {
  std::vector<float> out;
  for (const float value : values) out.push_back(to_bf16(value));
  return out;
}

}  // namespace espalier::reference
