// The naive twin of engine::RopeTable and engine::apply_rope.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace espalier::reference {

/// Turns the pair (head[i], head[i + d/2]) by the angle position · theta^(-2i/d), for each i < d/2.
inline std::vector<float> rope(std::span<const float> head, size_t position, double theta) {
  const size_t half = head.size() / 2;
  std::vector<float> out(head.size());
  for (size_t i = 0; i < half; ++i) {
    const double angle =
        static_cast<double>(position) /
        std::pow(theta, 2.0 * static_cast<double>(i) / static_cast<double>(head.size()));
    const double a = head[i];
    const double b = head[i + half];
    out[i] = static_cast<float>(a * std::cos(angle) - b * std::sin(angle));
    out[i + half] = static_cast<float>(a * std::sin(angle) + b * std::cos(angle));
  }
  return out;
}

}  // namespace espalier::reference
