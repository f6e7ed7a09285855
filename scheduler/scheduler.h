// The scheduler: admission, a bounded queue, a planner thread one batch ahead of a worker thread.
//
//   submit() → queue → planner: choose tickets, trie, BatchPlan(t+1) → one-slot hand-off
//                    → worker: forward pass of batch t → results
//
// Thread contract: submit(), the observers and PendingRequest may be used from any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "engine/batch_plan.h"
#include "engine/forward_pass.h"
#include "scheduler/request.h"

namespace espalier::scheduler {

struct SchedulerLimits {
  engine::DedupMode dedup = engine::DedupMode::kTrie;
  size_t batch_rows_max = 4096;        // compact rows of a batch (full rows for kOff)
  size_t batch_full_rows_max = 65536;  // full rows of a batch, in any mode
  size_t sequence_tokens_max = 8192;   // tokens of one sequence; one larger than a batch runs alone
  size_t queue_tickets_max = 16384;    // sequences waiting; a request with more can never fit
};

/// What one finished batch was, for metrics and logs.
struct BatchReport {
  size_t model = 0;
  size_t sequences = 0;
  size_t full_rows = 0;     // tokens of all its sequences
  size_t compact_rows = 0;  // rows that were computed
  double plan_seconds = 0;
  double compute_seconds = 0;
  bool failed = false;
};

/// Hooks for metrics; called from the planner's and worker's threads, must be quick and must not
/// throw.
class SchedulerObserver {
 public:
  virtual ~SchedulerObserver() = default;
  virtual void on_batch(const BatchReport& report) = 0;
};

/// A submitted request, as the front end holds it. Letting go of the last reference cancels it.
/// Its deadline is enforced by wait_for(), which ends the request when the deadline passes, and by
/// the planner, which drops expired sequences that nobody waits for.
class PendingRequest {
 public:
  virtual ~PendingRequest() = default;
  /// True when every sequence has been computed or the request has failed; waits up to `timeout`.
  virtual bool wait_for(std::chrono::milliseconds timeout) = 0;
  /// Nobody wants the result any more: sequences not yet taken into a batch are dropped, the rest
  /// run out unread. Idempotent; does nothing to a finished request.
  virtual void cancel() = 0;
  /// The outcome, once; call after wait_for() returned true.
  virtual Result<Completed> take() = 0;
};

struct QueueDepth {
  size_t tickets = 0;  // waiting, not yet taken into a batch
  size_t tokens = 0;
};

/// How a drain ended.
struct DrainReport {
  size_t abandoned_requests = 0;  // answered kShuttingDown because the time was up
};

class Scheduler {
 public:
  /// `models` must outlive the scheduler and are used by its worker thread alone. `observer` may be
  /// null.
  Scheduler(std::vector<engine::ForwardPass*> models, const SchedulerLimits& limits,
            SchedulerObserver* observer);
  /// Abandons what is left (kShuttingDown) and joins the threads.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Admits all sequences or none. An empty submission is a programmer error.
  Result<std::shared_ptr<PendingRequest>> submit(Submission submission);

  /// Stops admitting (kShuttingDown), finishes what was accepted within `timeout`, fails the rest.
  /// Returns early when everything is done. Call once.
  DrainReport drain(std::chrono::milliseconds timeout);

  QueueDepth queue_depth() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace espalier::scheduler
