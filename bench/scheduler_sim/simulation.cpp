#include "bench/scheduler_sim/simulation.h"

#include <algorithm>
#include <memory>
#include <queue>
#include <stdexcept>
#include <unordered_map>
#include <utility>

namespace espalier::sim {
namespace {

using namespace scheduler;

class Simulation final : public ServerListener {
 public:
  Simulation(const Trace& trace, const SimulationSettings& settings, RunWatcher* watcher)
      : trace_(trace),
        watcher_(watcher != nullptr ? watcher : &nobody_),
        choice_(settings.balance, settings.replicas) {
    for (size_t r = 0; r < settings.replicas; ++r) {
      servers_.push_back(std::make_unique<SimulatedServer>(r, settings.server, *this));
    }
  }

  RunResult run();

  void on_dispatch(size_t replica, const Batch& batch, double now) override;
  void on_batch_end(size_t replica, const Batch& batch, double started, double now,
                    bool abandoned) override;

 private:
  enum class EventKind : uint8_t { kArrival, kCancelled, kDeadline };
  struct Event {
    double at;
    uint64_t order;  // of events at one time
    EventKind kind;
    size_t request;   // of kCancelled, kDeadline
    Arrival arrival;  // of kArrival
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.at != b.at ? a.at > b.at : a.order > b.order;
    }
  };
  struct Open {
    std::shared_ptr<RequestState> state;
    size_t replica = 0;
    Arrival arrival;
  };

  void push(double at, EventKind kind, size_t request, const Arrival& arrival);
  void push_next_of_trace();
  void handle(const Event& event, double now);
  void arrive(const Arrival& arrival, double now);
  void give_up(size_t request, Outcome outcome, double now);
  void ended(size_t request, Outcome outcome, double now);

  const Trace& trace_;
  RunWatcher nobody_;
  RunWatcher* watcher_;
  ReplicaChoice choice_;
  std::vector<std::unique_ptr<SimulatedServer>> servers_;
  std::priority_queue<Event, std::vector<Event>, Later> events_;
  uint64_t events_pushed_ = 0;
  size_t next_of_trace_ = 0;
  std::unordered_map<size_t, Open> open_;
  std::unordered_map<const RequestState*, size_t> numbers_;  // of open requests
  RunResult result_;
};

void Simulation::push(double at, EventKind kind, size_t request, const Arrival& arrival) {
  events_.push({at, events_pushed_++, kind, request, arrival});
}

/// One at a time: the heap stays small.
void Simulation::push_next_of_trace() {
  if (next_of_trace_ == trace_.arrivals.size()) return;
  const Arrival& arrival = trace_.arrivals[next_of_trace_++];
  push(arrival.at, EventKind::kArrival, 0, arrival);
}

RunResult Simulation::run() {
  push_next_of_trace();
  for (;;) {
    double now = events_.empty() ? kNever : events_.top().at;
    for (const auto& server : servers_) now = std::min(now, server->next_event());
    if (now == kNever) break;
    watcher_->on_time(now);
    for (const auto& server : servers_) server->reach(now);
    while (!events_.empty() && events_.top().at <= now) {
      const Event event = events_.top();
      events_.pop();
      handle(event, now);
    }
    for (const auto& server : servers_) server->plan(now);
  }
  if (!open_.empty()) throw std::logic_error("requests were never answered");
  for (const auto& server : servers_) watcher_->on_drained(*server->queue());
  return std::move(result_);
}

void Simulation::handle(const Event& event, double now) {
  switch (event.kind) {
    case EventKind::kArrival:
      arrive(event.arrival, now);
      break;
    case EventKind::kCancelled:
      give_up(event.request, Outcome::kCancelled, now);
      break;
    case EventKind::kDeadline:
      give_up(event.request, Outcome::kDeadline, now);
      break;
  }
}

void Simulation::arrive(const Arrival& arrival, double now) {
  // A closed-loop client's next request is an event of its own, not of the trace's list.
  if (trace_.arrivals[next_of_trace_ - 1].seed == arrival.seed) {
    push_next_of_trace();
  }
  Submission submission = submission_of(trace_, arrival);
  if (arrival.deadline != kNever) submission.deadline = time_point(now + arrival.deadline);
  const size_t number = result_.requests.size();
  const size_t replica = choice_.choose(affinity_key(trace_, arrival));
  auto state = std::make_shared<RequestState>(std::move(submission), servers_[replica]->queue(),
                                              time_point(now));
  Record record;
  record.spec = arrival.spec;
  record.sequences = state->sequences().size();
  record.tokens = state->tokens();
  record.arrived = now;
  result_.requests.push_back(record);
  result_.seconds = now;
  numbers_.emplace(state.get(), number);
  open_.emplace(number, Open{state, replica, arrival});
  const bool admitted = servers_[replica]->admit(state);
  watcher_->on_arrival(number, *state, admitted ? Outcome::kOpen : Outcome::kRejected, now);
  if (!admitted) {
    ended(number, Outcome::kRejected, now);
    return;
  }
  if (arrival.deadline != kNever) push(now + arrival.deadline, EventKind::kDeadline, number, {});
  if (arrival.cancelled != kNever) push(now + arrival.cancelled, EventKind::kCancelled, number, {});
}

void Simulation::give_up(size_t request, Outcome outcome, double now) {
  const auto found = open_.find(request);
  if (found == open_.end()) return;
  const size_t replica = found->second.replica;
  found->second.state->fail(outcome == Outcome::kDeadline
                                ? deadline_failure()
                                : Failure{FailureKind::kCancelled, "cancelled", {}});
  ended(request, outcome, now);
  servers_[replica]->requests_failed(now);
}

void Simulation::ended(size_t request, Outcome outcome, double now) {
  const auto found = open_.find(request);
  Record& record = result_.requests[request];
  record.outcome = outcome;
  record.ended = now;
  result_.seconds = now;
  watcher_->on_end(request, *found->second.state, outcome, now);
  const Arrival arrival = found->second.arrival;
  choice_.ended(found->second.replica);
  numbers_.erase(found->second.state.get());
  open_.erase(found);
  if (trace_.specs[arrival.spec].arrivals != Arrivals::kClosed) return;
  const Arrival next = next_of(trace_, arrival, now);
  if (next.at < trace_.seconds) push(next.at, EventKind::kArrival, 0, next);
}

void Simulation::on_dispatch(size_t replica, const Batch& batch, double now) {
  watcher_->on_dispatch(replica, batch, now);
  for (const Ticket& ticket : batch.tickets()) {
    const auto found = numbers_.find(ticket.request.get());
    if (found == numbers_.end()) continue;
    Record& record = result_.requests[found->second];
    record.taken = std::min(record.taken, now);
  }
}

void Simulation::on_batch_end(size_t replica, const Batch& batch, double started, double now,
                              bool abandoned) {
  result_.batches.push_back(
      {replica, batch.tickets().size(), batch.full_rows, batch.work.rows, started, now, abandoned});
  result_.seconds = now;
  watcher_->on_batch_end(replica, batch, started, now, abandoned);
  for (const Ticket& ticket : batch.tickets()) {
    if (!ticket.request->ended()) continue;
    const auto found = numbers_.find(ticket.request.get());
    if (found != numbers_.end()) ended(found->second, Outcome::kDone, now);
  }
}

}  // namespace

RunResult simulate(const Trace& trace, const SimulationSettings& settings, RunWatcher* watcher) {
  return Simulation(trace, settings, watcher).run();
}

}  // namespace espalier::sim
