#include "scheduler/worker.h"

#include <algorithm>
#include <exception>
#include <new>
#include <stdexcept>
#include <utility>

#include "scheduler/clock.h"

namespace espalier::scheduler {
namespace {

bool all_ended(std::span<const Ticket> tickets) {
  return std::all_of(tickets.begin(), tickets.end(),
                     [](const Ticket& ticket) { return ticket.request->ended(); });
}

void fail_all(std::span<const Ticket> tickets, const std::string& error) {
  for (const Ticket& ticket : tickets) {
    ticket.request->fail({FailureKind::kCompute, error, {}});
  }
}

void fulfil(const Ticket& ticket, const engine::BatchPlan& plan, engine::ConstMatView states,
            size_t s) {
  if (ticket.request->ended()) {
    return;  // its result would go unread
  }
  try {
    ticket.request->fulfil(ticket.index, copy_hidden_states(plan, states, s, ticket.wanted()),
                           Clock::now());
  } catch (const std::bad_alloc&) {
    ticket.request->fail({FailureKind::kCompute, "no memory for the result", {}});
  }
}

}  // namespace

HiddenStates copy_hidden_states(const engine::BatchPlan& plan, engine::ConstMatView states,
                                size_t s, WantedRows wanted) {
  const auto state_of = [&](uint32_t row) {
    const auto at = std::lower_bound(plan.wanted_rows.begin(), plan.wanted_rows.end(), row);
    return static_cast<size_t>(at - plan.wanted_rows.begin());
  };
  const engine::SequenceEnd end = plan.ends[s];
  if (wanted == WantedRows::kLast) {
    const std::span<const float> row = states.row(state_of(end.row));
    return {row.begin(), row.end()};
  }
  HiddenStates result((plan.positions[end.row] + size_t{1}) * states.cols);
  uint32_t rows_end = end.row + 1;
  for (uint32_t n = end.node; n != engine::kNoParent; n = plan.nodes[n].parent) {
    const engine::TrieNode& node = plan.nodes[n];
    // All rows of the path are wanted, so those of one node follow one another in `states` too.
    const size_t first = state_of(node.begin);
    const uint32_t count = std::min(rows_end, node.end) - node.begin;
    for (uint32_t i = 0; i < count; ++i) {
      const std::span<const float> row = states.row(first + i);
      std::copy(row.begin(), row.end(), result.begin() + (node.position + i) * states.cols);
    }
    rows_end = UINT32_MAX;
  }
  return result;
}

Worker::Worker(std::vector<engine::ForwardPass*> models, const SchedulerLimits& limits,
               AdmissionControl& admission, SchedulerObserver* observer)
    : models_(std::move(models)),
      admission_(admission),
      observer_(observer),
      retry_planner_(limits) {}

void Worker::run(const Batch& batch) {
  if (all_ended(batch.tickets)) {
    return;
  }
  if (const std::optional<std::string> error = compute(batch)) {
    retry_in_halves(batch.tickets, *error);
  }
}

/// One forward pass; fulfils the tickets, or says what failed and leaves them open.
std::optional<std::string> Worker::compute(const Batch& batch) {
  engine::ForwardPass& model = *models_[batch.model];
  std::optional<std::string> error;
  engine::ConstMatView states;
  const Clock::time_point started = Clock::now();
  try {
    states = model.run(batch.plan, [](size_t, size_t) {});
    if (states.rows != batch.plan.wanted_rows.size() || states.cols != model.hidden_size()) {
      throw std::logic_error("the forward pass returned a matrix of another shape");
    }
  } catch (const std::bad_alloc&) {
    error = "not enough memory for the batch";
  } catch (const std::exception& exception) {
    error = exception.what();
  } catch (...) {
    error = "unknown exception";
  }
  const double seconds = seconds_between(started, Clock::now());
  if (!error) {
    admission_.observe_batch(batch.full_rows, seconds);
  }
  // Before the tickets: whoever sees a result sees it counted.
  if (observer_ != nullptr) {
    observer_->on_batch({batch.model, batch.tickets.size(), batch.full_rows,
                         batch.plan.compact_rows(), batch.plan_seconds, seconds,
                         error.has_value()});
  }
  if (!error) {
    for (size_t s = 0; s < batch.tickets.size(); ++s) {
      fulfil(batch.tickets[s], batch.plan, states, s);
    }
  }
  return error;
}

void Worker::retry_in_halves(std::span<const Ticket> tickets, const std::string& error) {
  struct Suspects {
    std::span<const Ticket> tickets;
    std::string error;
  };
  std::vector<Suspects> failed = {{tickets, error}};
  size_t passes = 0;
  while (!failed.empty()) {
    const Suspects suspects = std::move(failed.back());
    failed.pop_back();
    const size_t half = suspects.tickets.size() / 2;
    if (half == 0 || passes + 2 > kRetryPassesMax) {
      fail_all(suspects.tickets, "the forward pass failed: " + suspects.error);
      continue;
    }
    passes += 2;
    for (const auto part : {suspects.tickets.first(half), suspects.tickets.subspan(half)}) {
      if (std::optional<std::string> part_error = retry(part)) {
        failed.push_back({part, std::move(*part_error)});
      }
    }
  }
}

/// Plans and runs those of `tickets` that are still wanted.
std::optional<std::string> Worker::retry(std::span<const Ticket> tickets) {
  std::optional<std::string> error;
  try {
    retry_batch_.tickets.clear();
    std::copy_if(tickets.begin(), tickets.end(), std::back_inserter(retry_batch_.tickets),
                 [](const Ticket& ticket) { return !ticket.request->ended(); });
    if (!retry_batch_.tickets.empty()) {
      retry_planner_.plan_tickets(retry_batch_);
      error = compute(retry_batch_);
    }
  } catch (const std::bad_alloc&) {
    error = "not enough memory for the batch";
  }
  retry_batch_.tickets.clear();
  return error;
}

}  // namespace espalier::scheduler
