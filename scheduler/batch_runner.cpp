#include "scheduler/batch_runner.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <new>
#include <stdexcept>
#include <utility>

#include "scheduler/clock.h"
#include "scheduler/programmer_error.h"

namespace espalier::scheduler {
namespace {

/// Short enough for std::string to hold without allocating.
constexpr char kOutOfMemory[] = "out of memory";

bool all_ended(std::span<const Ticket> tickets) {
  return std::all_of(tickets.begin(), tickets.end(),
                     [](const Ticket& ticket) { return ticket.request->ended(); });
}

void fail_all(std::span<const Ticket> tickets, const std::string& error) {
  for (const Ticket& ticket : tickets) {
    ticket.request->fail({FailureKind::kCompute, error, {}});
  }
}

void fulfil(const Batch& batch, size_t s, engine::ConstMatView states) {
  const Ticket& ticket = batch.tickets()[s];
  if (ticket.request->ended()) {
    return;  // its result would go unread
  }
  try {
    ticket.request->fulfil(ticket.index, copy_hidden_states(batch.plan, states, s, ticket.wanted()),
                           batch.new_rows[s], Clock::now());
  } catch (const std::bad_alloc&) {
    ticket.request->fail({FailureKind::kCompute, kOutOfMemory, {}});
  }
}

/// Which of the states of plan.wanted_rows is that of `row`.
size_t state_of(const engine::BatchPlan& plan, uint32_t row) {
  const auto at = std::lower_bound(plan.wanted_rows.begin(), plan.wanted_rows.end(), row);
  return static_cast<size_t>(at - plan.wanted_rows.begin());
}

/// Calls `visit(position, state)` for each token of the sequence that ends at `end`, from its last
/// to its first. All of its rows must be wanted.
template <typename Visit>
void for_each_state(const engine::BatchPlan& plan, engine::ConstMatView states,
                    engine::SequenceEnd end, const Visit& visit) {
  uint32_t rows_end = end.row + 1;
  for (uint32_t n = end.node; n != engine::kNoParent; n = plan.nodes[n].parent) {
    const engine::TrieNode& node = plan.nodes[n];
    // All rows of the path are wanted, so those of one node follow one another in `states` too.
    const size_t first = state_of(plan, node.begin);
    for (uint32_t i = std::min(rows_end, node.end) - node.begin; i-- > 0;) {
      visit(size_t{node.position} + i, states.row(first + i));
    }
    rows_end = UINT32_MAX;
  }
}

size_t tokens_of(const engine::BatchPlan& plan, engine::SequenceEnd end) {
  return plan.positions[end.row] + size_t{1};
}

HiddenStates copy_path(const engine::BatchPlan& plan, engine::ConstMatView states,
                       engine::SequenceEnd end) {
  HiddenStates result(tokens_of(plan, end) * states.cols);
  for_each_state(plan, states, end, [&](size_t position, std::span<const float> state) {
    std::copy(state.begin(), state.end(), result.begin() + position * states.cols);
  });
  return result;
}

HiddenStates mean_of_path(const engine::BatchPlan& plan, engine::ConstMatView states,
                          engine::SequenceEnd end) {
  std::vector<double> sums(states.cols);
  for_each_state(plan, states, end, [&](size_t /*position*/, std::span<const float> state) {
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += state[i];
  });
  const auto tokens = static_cast<double>(tokens_of(plan, end));
  HiddenStates mean(states.cols);
  for (size_t i = 0; i < sums.size(); ++i) mean[i] = static_cast<float>(sums[i] / tokens);
  return mean;
}

}  // namespace

HiddenStates copy_hidden_states(const engine::BatchPlan& plan, engine::ConstMatView states,
                                size_t s, WantedRows wanted) {
  const engine::SequenceEnd end = plan.ends[s];
  if (!wants_every_row(wanted)) {
    const uint32_t row = wanted == WantedRows::kLast ? end.row : first_row(plan, s);
    const std::span<const float> state = states.row(state_of(plan, row));
    return {state.begin(), state.end()};
  }
  return wanted == WantedRows::kMean ? mean_of_path(plan, states, end)
                                     : copy_path(plan, states, end);
}

BatchRunner::BatchRunner(std::vector<engine::ForwardPass*> passes, PassRole role,
                         engine::DedupMode dedup, CostModels& costs, AdmissionControl& admission,
                         SchedulerObserver* observer)
    : passes_(std::move(passes)),
      role_(role),
      costs_(costs),
      admission_(admission),
      observer_(observer),
      retry_planner_(dedup, costs) {}

void BatchRunner::run(const Batch& batch, const Pause& pause) {
  if (all_ended(batch.tickets())) {
    return;
  }
  if (const std::optional<std::string> error = compute(batch, pause)) {
    try {
      retry_in_halves(batch.tickets(), *error, pause);
    } catch (const std::bad_alloc&) {
      fail_all(batch.tickets(), kOutOfMemory);  // those that are still open
    }
  }
}

/// One forward pass; fulfils the tickets, or says what failed and leaves them open.
std::optional<std::string> BatchRunner::compute(const Batch& batch, const Pause& pause) {
  engine::ForwardPass* const pass = passes_[batch.model()];
  if (pass == nullptr) {
    programmer_error("a batch for a model that has no pass here", batch.model(), passes_.size());
  }
  const Clock::time_point started = Clock::now();
  PassPace pace(started);
  bool abandoned = false;
  const auto progress = [&](size_t steps_done, size_t steps) {
    if (pause && !all_ended(batch.tickets())) {
      pace.reached(steps_done, steps, Clock::now());
      pause(batch, pace);
    }
    abandoned = all_ended(batch.tickets());
    return !abandoned;
  };
  std::optional<std::string> error;
  engine::ConstMatView states;
  try {
    states = pass->run(batch.plan, progress);
    if (!abandoned &&
        (states.rows != batch.plan.wanted_rows.size() || states.cols != pass->hidden_size())) {
      throw std::logic_error("the forward pass returned a matrix of another shape");
    }
  } catch (const std::bad_alloc&) {
    error = kOutOfMemory;
  } catch (const std::exception& exception) {
    error = exception.what();
  } catch (...) {
    error = "unknown exception";
  }
  const double seconds = pace.own_seconds_until(Clock::now());
  if (!error && !abandoned) {
    admission_.observe_batch(batch.model(), batch.full_rows, seconds);
    costs_[batch.model()].observe(batch.work, seconds);
  }
  // Before the tickets: whoever sees a result sees it counted.
  report(batch, started, seconds, error.has_value(), abandoned);
  if (!error && !abandoned) {
    for (size_t s = 0; s < batch.tickets().size(); ++s) {
      fulfil(batch, s, states);
    }
  }
  return error;
}

void BatchRunner::report(const Batch& batch, Clock::time_point started, double seconds, bool failed,
                         bool abandoned) {
  const Clock::time_point ended = Clock::now();
  // Interludes are no gap: the pass that they interrupt has not ended.
  const Clock::time_point ready = std::max(last_ended_, batch.oldest);
  const double idle = last_ended_ == Clock::time_point{} ? 0 : seconds_between(ready, started);
  last_ended_ = ended;
  if (observer_ == nullptr) {
    return;
  }
  BatchReport report;
  report.model = batch.model();
  report.sequences = batch.tickets().size();
  report.full_rows = batch.full_rows;
  report.compact_rows = batch.plan.compact_rows();
  report.plan = &batch.plan;
  report.closed = batch.choice.closed;
  report.refinements = batch.refinements;
  report.plan_started = batch.plan_started;
  report.plan_ended = batch.plan_ended;
  report.pass_started = started;
  report.pass_ended = ended;
  report.plan_seconds = seconds_between(batch.plan_started, batch.plan_ended);
  report.idle_seconds = role_ == PassRole::kMain ? std::max(0.0, idle) : 0;
  report.predicted_seconds = batch.predicted_seconds;
  report.compute_seconds = seconds;
  report.failed = failed;
  report.abandoned = abandoned;
  report.interlude = role_ == PassRole::kInterlude;
  observer_->on_batch(report);
}

void BatchRunner::retry_in_halves(std::span<const Ticket> tickets, const std::string& error,
                                  const Pause& pause) {
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
      if (std::optional<std::string> part_error = retry(part, pause)) {
        failed.push_back({part, std::move(*part_error)});
      }
    }
  }
}

/// Plans and runs those of `tickets` that are still wanted.
std::optional<std::string> BatchRunner::retry(std::span<const Ticket> tickets, const Pause& pause) {
  std::optional<std::string> error;
  try {
    retry_batch_.choice.clear();
    std::copy_if(tickets.begin(), tickets.end(), std::back_inserter(retry_batch_.choice.tickets),
                 [](const Ticket& ticket) { return !ticket.request->ended(); });
    if (!retry_batch_.choice.tickets.empty()) {
      retry_planner_.plan_tickets(retry_batch_);
      error = compute(retry_batch_, pause);
    }
  } catch (const std::bad_alloc&) {
    error = kOutOfMemory;
  }
  retry_batch_.choice.tickets.clear();
  return error;
}

}  // namespace espalier::scheduler
