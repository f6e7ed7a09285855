// The scheduler: admission, a bounded queue, a planner thread one batch ahead of a worker thread.
//
//   submit() → queue → planner: choose tickets, trie, BatchPlan(t+1) → one-slot hand-off
//                    → worker: forward pass of batch t → results
//
// While a pass over a long input runs, the worker runs short inputs at its pauses (interludes).
//
// Thread contract: submit(), the observers and PendingRequest may be used from any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "engine/batch_plan.h"
#include "engine/forward_pass.h"
#include "scheduler/pass_work.h"
#include "scheduler/request.h"

namespace espalier::scheduler {

/// When short inputs may run in the pauses of a pass over a longer one. Seconds are predictions
/// from what the running pass has done so far.
struct InterludeLimits {
  double after_seconds = 0.25;  // a pass is not interrupted before it has run for this long,
  double left_seconds = 1;      // nor with less than this left
  double share_max = 0.5;   // of the time since a pass began, that interludes may have taken when
                            // another one begins; 0 … 1
  size_t length_ratio = 8;  // an input is overtaken only by inputs that many times shorter, >= 1
  size_t always_short_tokens = 640;  // … and of up to so many tokens, a paragraph and its prompt,
  double short_seconds = 2;          // or what the running pass does in this time if that is more
  double batch_seconds = 0.5;        // an interlude of several inputs takes this at most,
  size_t batch_rows_min = 128;       // but so few rows always go together
};

struct SchedulerLimits {
  engine::DedupMode dedup = engine::DedupMode::kTrie;
  size_t batch_rows_max = 4096;        // compact rows of a batch (full rows for kOff)
  size_t batch_full_rows_max = 65536;  // full rows of a batch, in any mode
  size_t sequence_tokens_max = 8192;   // tokens of one sequence; one larger than a batch runs alone
  size_t batch_sequences_max = 4096;   // of a batch
  double batch_seconds_max = 1;        // predicted compute time of a batch
  std::chrono::milliseconds batch_window{0};  // an idle worker waits so long for more to come
  size_t queue_tickets_max = 16384;  // sequences waiting; a request with more can never fit
  size_t queue_tokens_max = size_t{1} << 21U;  // tokens of sequences waiting; likewise
  InterludeLimits interludes;
};

/// The forward passes of one model.
struct ModelPasses {
  // Implicit: a model may be given as its main pass alone.
  ModelPasses(engine::ForwardPass* main_in, engine::ForwardPass* interlude_in = nullptr,
              const PassCosts& costs_in = {})
      : main(main_in), interlude(interlude_in), costs(costs_in) {}

  engine::ForwardPass* main;
  /// A pass with activations of its own, which may run while any main pass stands still in its
  /// progress callback. Null: inputs of this model never overtake.
  engine::ForwardPass* interlude;
  PassCosts costs;
};

/// Why a batch took in no more.
enum class BatchClosed : uint8_t {
  kQueueEmpty,  // nothing else was waiting that could go with it
  kRows,        // batch_rows_max or batch_full_rows_max
  kSequences,   // batch_sequences_max
  kSeconds,     // batch_seconds_max
};

/// What one finished batch was, for metrics and logs.
struct BatchReport {
  size_t model = 0;
  size_t sequences = 0;
  size_t full_rows = 0;                     // tokens of all its sequences
  size_t compact_rows = 0;                  // rows that were computed
  const engine::BatchPlan* plan = nullptr;  // what ran; never null, valid during the call
  BatchClosed closed = BatchClosed::kQueueEmpty;
  size_t refinements = 0;            // times that it was planned anew because the queue changed
  Clock::time_point plan_started{};  // the last time,
  Clock::time_point plan_ended{};    // … before the worker took it
  Clock::time_point pass_started{};
  Clock::time_point pass_ended{};
  double plan_seconds = 0;
  double idle_seconds = 0;       // that the worker stood still before it although tickets waited
  double predicted_seconds = 0;  // by the cost model, when it was planned; 0: not known yet
  double compute_seconds = 0;    // without the interludes in its pauses
  bool failed = false;
  bool abandoned = false;  // it was stopped on the way: nobody wanted it any more
  bool interlude = false;  // it ran in a pause of another batch, and is reported before that one
};

/// Hooks for metrics; called from the worker's thread, must be quick and must not throw.
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
  /// Nobody wants the result any more: sequences not yet taken into a batch are dropped, and a
  /// batch of which nothing is wanted any more stops at its next pause. Idempotent; does nothing to
  /// a finished request.
  virtual void cancel() = 0;
  /// The outcome, once; call after wait_for() returned true.
  virtual Result<Completed> take() = 0;
};

struct QueueDepth {
  size_t tickets = 0;  // waiting, not yet taken into a batch
  size_t tokens = 0;
  double cost = 0;  // in rows, as if they shared nothing
};

/// How a drain ended.
struct DrainReport {
  size_t abandoned_requests = 0;  // answered kShuttingDown because the time was up
};

class Scheduler {
 public:
  /// The passes of `models` must outlive the scheduler and are used by its worker thread alone.
  /// `observer` may be null. Throws std::invalid_argument for a configuration that cannot work.
  Scheduler(const std::vector<ModelPasses>& models, const SchedulerLimits& limits,
            SchedulerObserver* observer);
  /// Abandons what is left (kShuttingDown) and joins the threads: waits for the running pass's next
  /// pause.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Admits all sequences or none. An empty submission is a programmer error.
  Result<std::shared_ptr<PendingRequest>> submit(Submission submission);

  /// Stops admitting (kShuttingDown), finishes what was accepted within `timeout`, fails the rest.
  /// Returns early when everything is done. Call once.
  DrainReport drain(std::chrono::milliseconds timeout);

  QueueDepth queue_depth() const;
  /// The same by model.
  std::vector<QueueDepth> queue_depths() const;

  /// Tokens of one submission; with more it never fits (FailureKind::kNeverFits).
  size_t submission_tokens_max() const;

  /// How long what waits, and `tokens` more of `model`, will take at each model's rate of late, or
  /// without sharing anything if that is longer; 0 if nothing of `model` has run yet.
  double predicted_seconds(size_t model, size_t tokens) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace espalier::scheduler
