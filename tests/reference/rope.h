// The naive twins of engine::rope_frequencies, engine::RopeTable and engine::apply_rope.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <span>
#include <vector>

#include "engine/rope_frequencies.h"

namespace espalier::reference {

/// By wavelengths and interpolation of two sets of frequencies, as the publications put it.
inline std::vector<double> rope_frequencies(size_t head_dim, double theta,
                                            const engine::RopeScaling& s) {
  using Kind = engine::RopeScaling::Kind;
  const auto d = static_cast<double>(head_dim);
  std::vector<double> out;
  for (size_t k = 0; k < head_dim / 2; ++k) {
    const double extrapolated = 1 / std::pow(theta, 2 * static_cast<double>(k) / d);
    const double interpolated = extrapolated / s.factor;
    double keep = 1;  // share of the extrapolated one
    if (s.kind == Kind::kLinear) keep = 0;
    if (s.kind == Kind::kLlama3) {
      const double wavelength = 2 * std::numbers::pi / extrapolated;
      keep = (s.original_positions / wavelength - s.low_freq_factor) /
             (s.high_freq_factor - s.low_freq_factor);
    }
    if (s.kind == Kind::kYarn) {
      const auto index = [&](double turns) {
        return d * std::log(s.original_positions / (turns * 2 * std::numbers::pi)) /
               (2 * std::log(theta));
      };
      double low = index(s.beta_fast), high = index(s.beta_slow);
      if (s.truncate) low = std::floor(low), high = std::ceil(high);
      low = std::max(low, 0.0);
      high = std::min(high, d - 1);
      if (low == high) high += 0.001;
      keep = 1 - (static_cast<double>(k) - low) / (high - low);
    }
    keep = std::min(1.0, std::max(0.0, keep));
    out.push_back(keep * extrapolated + (1 - keep) * interpolated);
  }
  return out;
}

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
