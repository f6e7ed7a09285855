// Plans one batch: tickets from the queue, trie, BatchPlan. No thread of its own.
//
// Thread contract: one thread at a time.
#pragma once

#include <deque>
#include <vector>

#include "scheduler/batch.h"
#include "scheduler/batch_policy.h"
#include "scheduler/cost_model.h"
#include "scheduler/plan_builder.h"
#include "scheduler/scheduler.h"
#include "scheduler/ticket_queue.h"

namespace espalier::scheduler {

/// By model. A deque: they cannot be moved.
using CostModels = std::deque<CostModel>;

class Planner {
 public:
  /// `costs` must outlive the planner.
  Planner(engine::DedupMode dedup, const CostModels& costs);

  /// Fills `batch`, reusing its memory, with a choice of what waits in `queue`, under `rules`, and
  /// its plan. The tickets stay in the queue until they are dispatched. False if there was none to
  /// plan: the queue was empty, all that came up had ended or expired, or planning failed (out of
  /// memory), which fails the tickets concerned.
  bool plan_next(TicketQueue& queue, const BatchRules& rules, Clock::time_point now, Batch& batch);

  /// Plans exactly the tickets that `batch` holds, all of one model.
  void plan_tickets(Batch& batch);

 private:
  void build(Batch& batch);

  const CostModels& costs_;
  PlanBuilder builder_;
  BatchPolicy policy_;
  std::vector<CostCoefficients> coefficients_;
};

/// The tickets have left the queue: tells their requests.
void mark_taken(const Batch& batch, Clock::time_point now);

}  // namespace espalier::scheduler
