// Floating-point operations of a forward pass, 2 a multiplication, by what they grow with.
#pragma once

#include "models/model_config.h"

namespace espalier::models {

struct PassFlops {
  double row = 0;   // a compact row: its matrix products with weights, the last layer's rest apart
  double pair = 0;  // a query and a key that it sees: attention (q · kᵀ and weights · v)
  double wanted = 0;  // a row that is wanted: the rest of the last layer
};

PassFlops count_flops(const ModelConfig& config);

}  // namespace espalier::models
