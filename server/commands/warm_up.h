// A model's first passes, before anybody waits for them: they bring code and tables into memory,
// and show that the model computes numbers.
//
// Thread contract: one thread, before the scheduler uses the passes.
#pragma once

#include "engine/batch_plan.h"
#include "scheduler/scheduler.h"
#include "server/service/served_model.h"

namespace espalier::commands {

/// Tokenizes a short text and takes it through both passes and the heads, as a request would.
/// Throws std::runtime_error naming the model when that fails or gives what is no finite number.
void warm_up(const server::ServedModel& model, const scheduler::ModelPasses& passes,
             engine::DedupMode dedup);

}  // namespace espalier::commands
