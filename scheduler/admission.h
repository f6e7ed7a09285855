// Who is let in: limits that no waiting can mend, and when to come back to a full queue.
//
// Thread contract: observe_batch() from one thread at a time, everything else from any.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <vector>

#include "scheduler/request.h"
#include "scheduler/scheduler.h"

namespace espalier::scheduler {

/// What `submission` adds to the queue.
QueueDepth demand_of(const Submission& submission);

class AdmissionControl {
 public:
  explicit AdmissionControl(const SchedulerLimits& limits, size_t models = 1)
      : limits_(limits), tokens_per_second_(models) {}

  /// Tokens that a submission may have.
  size_t tokens_max() const { return limits_.queue_tokens_max; }

  /// Why `submission` could never be computed here (kNeverFits), if so.
  std::optional<Failure> never_fits(const Submission& submission) const;

  /// The answer to a `demand` that finds `depths`, by model, in the queue (kQueueFull): retry_after
  /// is the time in which, at the observed rates, enough of the backlog will have left; at least
  /// 1 s.
  Failure queue_full(const QueueDepth& demand, const std::vector<QueueDepth>& depths) const;

  /// Whether a batch of `model` has been observed.
  bool has_observed(size_t model) const { return rate_of(model) > 0; }
  /// How long `tokens` of `model` take at the rate that has been observed of it, or else at the
  /// least of the others'; 0 if none has been observed.
  double predicted_seconds(size_t model, size_t tokens) const;

  /// A batch of `tokens` full rows of `model` took `seconds`.
  void observe_batch(size_t model, size_t tokens, double seconds);

 private:
  double rate_of(size_t model) const {
    return tokens_per_second_[model].load(std::memory_order_relaxed);
  }

  const SchedulerLimits limits_;
  // Moving averages by model; 0 until a batch has been seen. Models of different sizes differ by
  // orders of magnitude.
  std::vector<std::atomic<double>> tokens_per_second_;
};

}  // namespace espalier::scheduler
