#include "scheduler/planner.h"

#include <exception>
#include <string>

#include "scheduler/clock.h"

namespace espalier::scheduler {

Planner::Planner(const SchedulerLimits& limits)
    : builder_(limits.dedup), policy_(limits, builder_) {}

bool Planner::plan_next(TicketQueue& queue, Batch& batch) {
  const Clock::time_point started = Clock::now();
  batch.tickets.clear();
  try {
    queue.take(policy_, started, batch.tickets, expired_);
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
  batch.plan_seconds = seconds_between(started, Clock::now());
}

}  // namespace espalier::scheduler
