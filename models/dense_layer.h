// A Dense module of sentence-transformers: activation(W · x + b).
//
// Thread contract: immutable once loaded.
#pragma once

#include <span>
#include <vector>

#include "models/embedding_config.h"

namespace espalier::models {

class DenseLayer {
 public:
  /// Reads model.safetensors of the module's folder. Throws std::runtime_error with file, tensor
  /// and reason when something is missing, too much, or of another shape.
  static DenseLayer load(const DenseConfig& config);

  /// `inputs` values → `outputs` values, accumulated in double.
  std::vector<float> apply(std::span<const float> x) const;

 private:
  DenseConfig config_;
  std::vector<float> weight_;  // (outputs × inputs)
  std::vector<float> bias_;    // (outputs), or none
};

}  // namespace espalier::models
