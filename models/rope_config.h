// Rotary embedding as config.json describes it: rope_theta, and rope_scaling or, in newer files,
// rope_parameters.
#pragma once

#include "models/json_file.h"
#include "models/model_config.h"

namespace espalier::models {

/// Fills rope_theta, rope_scaling and rope_positions of `config`. Throws std::runtime_error naming
/// file, key and reason for a kind that is not supported, keys that contradict each other, and any
/// key that the kind does not have.
void read_rope(const JsonObject& object, ModelConfig& config);

}  // namespace espalier::models
