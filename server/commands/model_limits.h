// How long inputs and how large batches a model gets, from the options and what the model allows.
#pragma once

#include <cstddef>

#include "engine/gemm.h"
#include "models/model_config.h"
#include "server/commands/options.h"

namespace espalier::commands {

/// The longest input, special tokens included: --max-input-tokens, checked against the model's
/// maximum.
size_t input_tokens_max(const Options& options, const models::ModelConfig& config);

/// How many rows batches have, and for how many memory is reserved at start-up.
struct RowBudget {
  size_t batch = 0;      // compact rows of a batch, at most: --max-batch-tokens, --max-workspace-mb
  size_t reserved = 0;   // of the largest batch, which may be one input
  size_t interlude = 0;  // of a short batch that runs within a long one
};
/// Throws std::runtime_error if --max-workspace-mb leaves room for next to nothing.
RowBudget row_budget(const Options& options, const models::ModelConfig& config,
                     const engine::GemmBackend& gemm);

}  // namespace espalier::commands
