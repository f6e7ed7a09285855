// Synthetic batches for `espalier bench`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/batch_plan.h"
#include "models/model_config.h"

namespace espalier::commands {

/// `sequences` texts of `prefix` tokens that all share and `suffix` tokens of their own.
struct BatchShape {
  size_t sequences = 0;
  size_t prefix = 0;
  size_t suffix = 0;

  size_t tokens() const { return sequences * (prefix + suffix); }
};

/// A plan for random token ids below `vocabulary`, the same for every mode; last tokens are wanted.
engine::BatchPlan synthetic_plan(const BatchShape& shape, size_t vocabulary,
                                 engine::DedupMode dedup);

/// Floating-point operations of the matrix products with weights, 2 a multiplication, for a batch
/// of `rows` compact rows of which `wanted` are wanted.
double gemm_flops(const models::ModelConfig& config, size_t rows, size_t wanted);

/// Operations of causal attention (q · kᵀ and weights · v) that `plan` needs at least.
double attention_flops(const models::ModelConfig& config, const engine::BatchPlan& plan);

}  // namespace espalier::commands
