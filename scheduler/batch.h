// One batch on its way from a planner to the worker. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/batch_plan.h"
#include "scheduler/batch_policy.h"
#include "scheduler/pass_work.h"
#include "scheduler/ticket.h"

namespace espalier::scheduler {

struct Batch {
  Choice choice;         // its tickets are in the order of plan.ends
  uint64_t version = 0;  // of the queue, that it was chosen from
  engine::BatchPlan plan;
  std::vector<uint32_t> new_rows;  // by ticket: rows that no ticket before it has; sum: all rows
  PassWork work;
  size_t full_rows = 0;
  size_t longest = 0;                // tokens of its longest sequence
  Clock::time_point oldest{};        // admission of the ticket that has waited longest
  size_t refinements = 0;            // times that it was planned anew
  Clock::time_point plan_started{};  // the last time
  Clock::time_point plan_ended{};
  double predicted_seconds = 0;  // 0: not known yet

  const std::vector<Ticket>& tickets() const { return choice.tickets; }
  size_t model() const { return choice.model; }
};

}  // namespace espalier::scheduler
