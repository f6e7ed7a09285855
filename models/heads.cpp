#include "models/heads.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <string>

namespace espalier::models {

std::vector<float> pooled_embedding(std::span<const float> hidden, size_t dimensions,
                                    bool normalize) {
  if (dimensions < 1 || dimensions > hidden.size()) {
    throw std::out_of_range("an embedding of " + std::to_string(dimensions) +
                            " dimensions from a hidden state of " + std::to_string(hidden.size()));
  }
  std::vector<float> embedding(hidden.begin(), hidden.begin() + dimensions);
  if (!normalize) return embedding;
  // In double, because the squares of finite floats overflow f32 early.
  double squares = 0;
  for (const float x : embedding) squares += static_cast<double>(x) * x;
  constexpr double kLeastNorm = 1e-12;  // torch.nn.functional.normalize's
  const double scale = 1.0 / std::max(std::sqrt(squares), kLeastNorm);
  for (float& x : embedding) x = static_cast<float>(x * scale);
  return embedding;
}

double dot(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) {
    throw std::out_of_range("a product of " + std::to_string(a.size()) + " and " +
                            std::to_string(b.size()) + " values");
  }
  // Sums that do not wait for each other, always the same ones.
  constexpr size_t kLanes = 8;
  double sums[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= a.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += static_cast<double>(a[i + lane]) * b[i + lane];
    }
  }
  for (; i < a.size(); ++i) sums[i % kLanes] += static_cast<double>(a[i]) * b[i];
  return std::accumulate(std::begin(sums), std::end(sums), 0.0);
}

}  // namespace espalier::models
