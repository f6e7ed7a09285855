// The naive twin of engine::rms_norm.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace espalier::reference {

/// x[i] / sqrt(mean(x²) + eps) · weight[i], in double.
inline std::vector<float> rms_norm(std::span<const float> x, std::span<const float> weight,
                                   double eps) {
  double sum_of_squares = 0;
  for (const float value : x) sum_of_squares += double{value} * value;
  const double root_mean_square = std::sqrt(sum_of_squares / static_cast<double>(x.size()) + eps);
  std::vector<float> out(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    out[i] = static_cast<float>(x[i] / root_mean_square * weight[i]);
  }
  return out;
}

}  // namespace espalier::reference
