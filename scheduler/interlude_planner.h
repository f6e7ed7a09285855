// Where the worker gets interludes from: the queue itself, in which the batch that was planned
// ahead waits too.
//
// Thread contract: the worker's thread.
#pragma once

#include "scheduler/batch.h"
#include "scheduler/interlude_policy.h"
#include "scheduler/planner.h"
#include "scheduler/ticket_queue.h"

namespace espalier::scheduler {

/// The worker's view of it.
class InterludeSource {
 public:
  virtual ~InterludeSource() = default;
  /// Fills `batch` with an interlude that keeps to `budget`; false if nothing that waits may
  /// overtake. Does not wait for tickets.
  virtual bool next(const InterludeBudget& budget, Batch& batch) = 0;
};

class InterludePlanner final : public InterludeSource {
 public:
  /// `costs` and `queue` must outlive it.
  InterludePlanner(const SchedulerLimits& limits, const CostModels& costs, TicketQueue& queue)
      : limits_(limits), queue_(queue), planner_(limits.dedup, costs) {}

  bool next(const InterludeBudget& budget, Batch& batch) override;

 private:
  const SchedulerLimits limits_;
  TicketQueue& queue_;
  Planner planner_;
};

}  // namespace espalier::scheduler
