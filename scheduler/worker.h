// Runs batches: forward pass, hidden states to their tickets, reports. No thread of its own.
//
// A pass that fails (no memory, a result that is not finite) is not held against all of its
// tickets: they are run again in halves, and the halves that fail in halves again, so that only the
// guilty ones fail. The number of passes spent on that is bounded: a model that always fails must
// not hold up the queue.
//
// Thread contract: one thread at a time.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/forward_pass.h"
#include "scheduler/admission.h"
#include "scheduler/batch.h"
#include "scheduler/planner.h"
#include "scheduler/scheduler.h"

namespace espalier::scheduler {

class Worker {
 public:
  /// Passes after a failed one, at most: enough to find one guilty sequence among 65 536 (two
  /// halves a level).
  static constexpr size_t kRetryPassesMax = 32;

  /// All must outlive the worker; `observer` may be null.
  Worker(std::vector<engine::ForwardPass*> models, const SchedulerLimits& limits,
         AdmissionControl& admission, SchedulerObserver* observer);

  /// Fulfils or fails every ticket of `batch`; a batch whose requests have all ended is not run.
  void run(const Batch& batch);

 private:
  std::optional<std::string> compute(const Batch& batch);
  void retry_in_halves(std::span<const Ticket> tickets, const std::string& error);
  std::optional<std::string> retry(std::span<const Ticket> tickets);

  std::vector<engine::ForwardPass*> models_;
  AdmissionControl& admission_;
  SchedulerObserver* observer_;
  Planner retry_planner_;
  Batch retry_batch_;
};

/// The hidden states that sequence `s` of `plan` wants, taken from `states`, the (W × H) result for
/// plan.wanted_rows: its last row, or all of them in the order of its tokens.
HiddenStates copy_hidden_states(const engine::BatchPlan& plan, engine::ConstMatView states,
                                size_t s, WantedRows wanted);

}  // namespace espalier::scheduler
