// One batch on its way from a planner to the worker. Plain data.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/batch_plan.h"
#include "scheduler/ticket.h"

namespace espalier::scheduler {

struct Batch {
  size_t model = 0;
  std::vector<Ticket> tickets;  // in the order of plan.ends
  engine::BatchPlan plan;
  size_t full_rows = 0;
  size_t longest = 0;  // tokens of its longest sequence
  double plan_seconds = 0;
};

}  // namespace espalier::scheduler
