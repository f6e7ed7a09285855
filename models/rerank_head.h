// From a pooled hidden state to the logit of relevance, whichever way a model scores: rows of the
// language model's head, or of a classification head.
//
//   logit = positive · hidden − negative · hidden + bias
//
// With two rows, softmax over both is the sigmoid of this.
//
// Thread contract: immutable.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/safetensors.h"
#include "models/weight_source.h"

namespace espalier::models {

class RerankHead {
 public:
  /// Of the rows of `head` (vocab × H). Throws std::out_of_range when there is no such row.
  static RerankHead of_tokens(const engine::TensorView& head, uint32_t positive,
                              std::optional<uint32_t> negative);

  /// Of score.weight (labels × H) and, if it is there, score.bias (labels): 1 or 2 labels, of which
  /// `relevant` is the one that means relevant. Throws std::runtime_error when it is missing or
  /// misshapen.
  static RerankHead of_classifier(const WeightSource& source, size_t labels, size_t relevant,
                                  size_t hidden_size);

  /// `hidden`: (H).
  double logit(std::span<const float> hidden) const;

 private:
  std::vector<float> positive_;
  std::vector<float> negative_;  // empty: none
  double bias_ = 0;
};

/// The tensors that of_classifier() reads if they are there.
inline constexpr char kClassifierWeight[] = "score.weight";
inline constexpr char kClassifierBias[] = "score.bias";

}  // namespace espalier::models
