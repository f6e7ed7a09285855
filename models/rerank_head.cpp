#include "models/rerank_head.h"

#include <stdexcept>
#include <string>

#include "models/heads.h"

namespace espalier::models {
namespace {

std::vector<float> row_of(const engine::TensorView& matrix, size_t row) {
  const size_t width = matrix.shape.at(1);
  if (row >= matrix.shape[0]) {
    throw std::out_of_range("row " + std::to_string(row) + " of " +
                            std::to_string(matrix.shape[0]));
  }
  std::vector<float> values(width);
  engine::convert_to_f32(matrix, row * width, width, values.data());
  return values;
}

}  // namespace

RerankHead RerankHead::of_tokens(const engine::TensorView& head, uint32_t positive,
                                 std::optional<uint32_t> negative) {
  RerankHead result;
  result.positive_ = row_of(head, positive);
  if (negative) result.negative_ = row_of(head, *negative);
  return result;
}

RerankHead RerankHead::of_classifier(const WeightSource& source, size_t labels, size_t relevant,
                                     size_t hidden_size) {
  const WeightTensor weight = source.tensor({kClassifierWeight, {labels, hidden_size}});
  RerankHead result;
  result.positive_ = row_of(weight.view, relevant);
  if (labels == 2) result.negative_ = row_of(weight.view, 1 - relevant);
  if (source.contains(kClassifierBias)) {
    const WeightTensor tensor = source.tensor({kClassifierBias, {labels}});
    std::vector<float> bias(labels);
    engine::convert_to_f32(tensor.view, 0, labels, bias.data());
    result.bias_ = bias[relevant];
    if (labels == 2) result.bias_ -= bias[1 - relevant];
  }
  return result;
}

double RerankHead::logit(std::span<const float> hidden) const {
  return dot(positive_, hidden) - (negative_.empty() ? 0.0 : dot(negative_, hidden)) + bias_;
}

}  // namespace espalier::models
