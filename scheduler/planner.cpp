#include "scheduler/planner.h"

#include <algorithm>
#include <exception>
#include <string>

#include "scheduler/clock.h"

namespace espalier::scheduler {

Planner::Planner(const SchedulerLimits& limits)
    : limits_(limits), builder_(limits.dedup), policy_(limits, builder_) {}

bool Planner::plan_next(TicketQueue& queue, Batch& batch) { return plan(queue, policy_, batch); }

bool Planner::plan_interlude(TicketQueue& queue, const InterludeBudget& budget, Batch& batch) {
  InterludePolicy policy(limits_, budget, builder_);
  return plan(queue, policy, batch);
}

bool Planner::plan(TicketQueue& queue, TicketChooser& chooser, Batch& batch) {
  const Clock::time_point started = Clock::now();
  batch.tickets.clear();
  try {
    queue.take(chooser, started, batch.tickets, expired_);
    if (!batch.tickets.empty()) {
      build(batch, started);
    }
  } catch (const std::exception& error) {
    for (const Ticket& ticket : batch.tickets) {
      ticket.request->fail(
          {FailureKind::kCompute, std::string("planning failed: ") + error.what(), {}});
    }
    batch.tickets.clear();
  }
  builder_.clear();
  for (const std::shared_ptr<RequestState>& request : expired_) {
    request->fail(deadline_failure());
  }
  expired_.clear();
  for (const Ticket& ticket : batch.tickets) {
    if (ticket.index == 0) {
      ticket.request->mark_taken(started);
    }
  }
  return !batch.tickets.empty();
}

void Planner::plan_tickets(Batch& batch) {
  const Clock::time_point started = Clock::now();
  builder_.clear();
  for (const Ticket& ticket : batch.tickets) {
    policy_.add(ticket);
  }
  build(batch, started);
  builder_.clear();
}

void Planner::build(Batch& batch, Clock::time_point started) {
  builder_.build(batch.plan);
  batch.model = batch.tickets.front().request->model();
  batch.full_rows = builder_.full_rows();
  batch.longest = 0;
  for (const Ticket& ticket : batch.tickets) {
    batch.longest = std::max(batch.longest, ticket.token_ids().size());
  }
  batch.plan_seconds = seconds_between(started, Clock::now());
}

}  // namespace espalier::scheduler
