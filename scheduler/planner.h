// Plans one batch: tickets from the queue, trie, BatchPlan. No thread of its own.
//
// Thread contract: one thread at a time.
#pragma once

#include <memory>
#include <vector>

#include "scheduler/batch.h"
#include "scheduler/batch_policy.h"
#include "scheduler/interlude_policy.h"
#include "scheduler/plan_builder.h"
#include "scheduler/scheduler.h"
#include "scheduler/ticket_queue.h"

namespace espalier::scheduler {

class Planner {
 public:
  explicit Planner(const SchedulerLimits& limits);

  /// Fills `batch`, reusing its memory, with the next tickets of `queue` and their plan. False if
  /// there was none to plan: the queue was empty, all that came up had ended or expired, or
  /// planning failed (out of memory), which fails the tickets concerned.
  bool plan_next(TicketQueue& queue, Batch& batch);

  /// The same with the next tickets that may overtake under `budget`.
  bool plan_interlude(TicketQueue& queue, const InterludeBudget& budget, Batch& batch);

  /// Plans exactly `batch.tickets`, all of one model.
  void plan_tickets(Batch& batch);

 private:
  bool plan(TicketQueue& queue, TicketChooser& chooser, Batch& batch);
  void build(Batch& batch, Clock::time_point started);

  const SchedulerLimits limits_;
  PlanBuilder builder_;
  BatchPolicy policy_;
  std::vector<std::shared_ptr<RequestState>> expired_;
};

}  // namespace espalier::scheduler
