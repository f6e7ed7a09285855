#include "scheduler/planner.h"

#include <algorithm>
#include <exception>

#include "scheduler/clock.h"
#include "scheduler/pending_request.h"

namespace espalier::scheduler {

Planner::Planner(engine::DedupMode dedup, const CostModels& costs)
    : costs_(costs), builder_(dedup), policy_(builder_) {}

bool Planner::plan_next(TicketQueue& queue, const BatchRules& rules, Clock::time_point now,
                        Batch& batch) {
  batch.plan_started = Clock::now();
  Choice& choice = batch.choice;
  choice.clear();  // outside the queue's lock: may free requests
  try {
    coefficients_.clear();
    for (const CostModel& model : costs_) {
      coefficients_.push_back(model.coefficients());
    }
    batch.version = queue.choose(policy_, rules, coefficients_, now, choice);
    if (!choice.tickets.empty()) {
      build(batch);
    }
  } catch (const std::exception& error) {
    for (const Ticket& ticket : choice.tickets) {
      ticket.request->fail({FailureKind::kCompute, error.what(), {}});
    }
    choice.tickets.clear();
  }
  builder_.clear();
  for (const std::shared_ptr<RequestState>& request : choice.expired) {
    request->fail(deadline_failure());
  }
  choice.expired.clear();
  batch.plan_ended = Clock::now();
  return !choice.tickets.empty();
}

void Planner::plan_tickets(Batch& batch) {
  batch.plan_started = Clock::now();
  builder_.clear();
  for (const Ticket& ticket : batch.choice.tickets) {
    builder_.add(ticket.tenant(), ticket.token_ids(), ticket.wanted());
  }
  batch.choice.model = batch.choice.tickets.front().request->model();
  build(batch);
  builder_.clear();
  batch.plan_ended = Clock::now();
}

void Planner::build(Batch& batch) {
  builder_.build(batch.plan);
  batch.work = builder_.work();
  batch.work.wanted = static_cast<double>(batch.plan.wanted_rows.size());
  batch.predicted_seconds = costs_[batch.choice.model].coefficients().seconds(batch.work);
  batch.full_rows = builder_.full_rows();
  batch.longest = 0;
  batch.oldest = Clock::time_point::max();
  batch.new_rows.resize(batch.choice.tickets.size());
  for (size_t s = 0; s < batch.choice.tickets.size(); ++s) {
    const Ticket& ticket = batch.choice.tickets[s];
    batch.new_rows[s] = builder_.new_rows_of(s);
    batch.longest = std::max(batch.longest, ticket.token_ids().size());
    batch.oldest = std::min(batch.oldest, ticket.request->admitted());
  }
}

void mark_taken(const Batch& batch, Clock::time_point now) {
  for (const Ticket& ticket : batch.choice.tickets) {
    ticket.request->mark_taken(now);
  }
}

}  // namespace espalier::scheduler
