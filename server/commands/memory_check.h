// Whether the models will fit into memory, asked before minutes are spent on loading them.
//
// Thread contract: stateless.
#pragma once

#include <string>
#include <vector>

#include "engine/gemm.h"
#include "server/commands/memory_limit.h"
#include "server/commands/memory_prediction.h"
#include "server/commands/options.h"
#include "server/commands/request_budget.h"

namespace espalier::commands {

/// What keeps `models` from fitting into `limit`, with every figure and what would help in this
/// very case; empty: they fit.
std::string why_it_does_not_fit(const std::vector<PlannedModel>& models, const Options& options,
                                const engine::GemmBackend& gemm, const MemoryLimit& limit);

/// Logs what is predicted, and returns what it leaves for requests. By --memory-check, throws
/// std::runtime_error or warns when it does not fit, or does nothing.
RequestBudget check_memory(const std::vector<ModelFiles>& files, const Options& options,
                           const engine::GemmBackend& gemm);

/// Logs what the process has taken, once everything is loaded.
void log_memory_in_use();

}  // namespace espalier::commands
