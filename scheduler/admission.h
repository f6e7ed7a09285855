// Who is let in: limits that no waiting can mend, and when to come back to a full queue.
//
// Thread contract: observe_batch() from one thread at a time, everything else from any.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>

#include "scheduler/request.h"
#include "scheduler/scheduler.h"

namespace espalier::scheduler {

/// What `submission` adds to the queue.
QueueDepth demand_of(const Submission& submission);

class AdmissionControl {
 public:
  explicit AdmissionControl(const SchedulerLimits& limits) : limits_(limits) {}

  /// Tokens that a submission may have.
  size_t tokens_max() const { return limits_.queue_tokens_max; }

  /// Why `submission` could never be computed here (kNeverFits), if so.
  std::optional<Failure> never_fits(const Submission& submission) const;

  /// The answer to a `demand` that finds `depth` in the queue (kQueueFull): retry_after is the time
  /// in which, at the observed rate, enough of the backlog will have left; at least 1 s.
  Failure queue_full(const QueueDepth& demand, const QueueDepth& depth) const;

  /// How long `tokens` take at the observed rate; 0 if none has been observed.
  double predicted_seconds(size_t tokens) const;

  /// A batch of `tokens` full rows took `seconds`.
  void observe_batch(size_t tokens, double seconds);

 private:
  const SchedulerLimits limits_;
  std::atomic<double> tokens_per_second_{0};  // moving average; 0 until a batch has been seen
};

}  // namespace espalier::scheduler
