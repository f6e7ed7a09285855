// Which waiting tickets make a batch: first in, first out, under budgets.
//
// The first ticket always fits, so that one larger than a batch runs (alone). A later one fits
// while the batch keeps within its compact rows, where a ticket costs only the rows that it does
// not share with the batch, and within its full rows. The first ticket that does not fit closes the
// batch; nobody behind it overtakes.
//
// Thread contract: none; one thread at a time.
#pragma once

#include "scheduler/plan_builder.h"
#include "scheduler/scheduler.h"
#include "scheduler/ticket_queue.h"

namespace espalier::scheduler {

class BatchPolicy final : public TicketChooser {
 public:
  /// Tickets are chosen for, and added to, `builder`, which must outlive the policy.
  BatchPolicy(const SchedulerLimits& limits, PlanBuilder& builder)
      : limits_(limits), builder_(builder) {}

  bool fits(const Ticket& ticket) const override;
  void add(const Ticket& ticket) override;

 private:
  const SchedulerLimits limits_;
  PlanBuilder& builder_;
};

}  // namespace espalier::scheduler
