// The check of a batch plan before a forward pass reads memory by its indices.
#pragma once

#include <cstddef>

#include "engine/batch_plan.h"

namespace espalier::models {

/// Throws std::out_of_range with the values when an index of `plan` leads out of bounds: a token id
/// not below `vocabulary`, a position not below `max_positions`, rows, nodes or maps that do not
/// fit each other. A plan that fails is its maker's mistake, never a client's. O(C + N).
void check_plan(const engine::BatchPlan& plan, size_t vocabulary, size_t max_positions);

}  // namespace espalier::models
