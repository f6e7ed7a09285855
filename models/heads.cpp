#include "models/heads.h"

#include <algorithm>
#include <cmath>
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

float head_logit(const engine::TensorView& head, std::span<const float> hidden, uint32_t id) {
  const size_t width = head.shape.at(1);
  if (id >= head.shape.at(0) || hidden.size() != width) {
    throw std::out_of_range("the logit of token " + std::to_string(id) + " of " +
                            std::to_string(head.shape[0]) + " for a hidden state of " +
                            std::to_string(hidden.size()) + " against " + std::to_string(width));
  }
  std::vector<float> row(width);
  engine::convert_to_f32(head, id * width, width, row.data());
  return std::inner_product(row.begin(), row.end(), hidden.begin(), 0.0F);
}

}  // namespace espalier::models
