// Discrete-event simulation: a trace against one or several replicas of the server.
//
// Time is what the events say; between two events nothing happens. At one point of time passes end
// first, then requests come or are given up, then batches are planned. The same trace and settings
// give the same run.
//
// Thread contract: none; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/scheduler_sim/replica_choice.h"
#include "bench/scheduler_sim/simulated_server.h"
#include "bench/scheduler_sim/trace.h"

namespace espalier::sim {

enum class Outcome : uint8_t { kOpen, kDone, kRejected, kDeadline, kCancelled };

/// What became of a request. Times in seconds.
struct Record {
  uint32_t spec = 0;
  Outcome outcome = Outcome::kOpen;
  size_t sequences = 0;
  size_t tokens = 0;
  double arrived = 0;
  double taken = kNever;  // its first ticket was taken into a batch
  double ended = 0;
};

struct BatchRecord {
  size_t replica = 0;
  size_t sequences = 0;
  size_t tokens = 0;
  double rows = 0;
  double started = 0;
  double ended = 0;
  bool abandoned = false;
};

struct RunResult {
  std::vector<Record> requests;  // in the order in which they were sent
  std::vector<BatchRecord> batches;
  double seconds = 0;  // until the last event
};

struct SimulationSettings {
  ServerSettings server;
  size_t replicas = 1;
  BalanceSettings balance;
};

/// What a run tells while it goes on. Requests are numbered in the order in which they are sent.
class RunWatcher {
 public:
  virtual ~RunWatcher() = default;
  /// `state` was admitted or, if `outcome` says so, rejected.
  virtual void on_arrival(size_t, const scheduler::RequestState&, Outcome, double) {}
  virtual void on_dispatch(size_t, const scheduler::Batch&, double) {}
  virtual void on_batch_end(size_t, const scheduler::Batch&, double, double, bool) {}
  virtual void on_end(size_t, const scheduler::RequestState&, Outcome, double) {}
  /// All requests have ended.
  virtual void on_drained(const scheduler::TicketQueue&) {}
  /// The clock has come to `now`.
  virtual void on_time(double) {}
};

/// `watcher` may be null.
RunResult simulate(const Trace& trace, const SimulationSettings& settings, RunWatcher* watcher);

}  // namespace espalier::sim
