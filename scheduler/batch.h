// One batch on its way from the planner to the worker. Plain data.
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
  double plan_seconds = 0;
};

}  // namespace espalier::scheduler
