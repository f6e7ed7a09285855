// Runs one batch: forward pass, hidden states to their tickets, report.
//
// A pass that fails (no memory, a result that is not finite) is not held against all of its
// tickets: they are run again in halves, and the halves that fail in halves again, so that only the
// guilty ones fail. The number of passes spent on that is bounded: a model that always fails must
// not hold up the queue.
//
// A pass whose tickets have all ended is abandoned at its next pause.
//
// Thread contract: one thread at a time; not to be entered again from a pause of its own passes.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/forward_pass.h"
#include "scheduler/admission.h"
#include "scheduler/batch.h"
#include "scheduler/pass_pace.h"
#include "scheduler/planner.h"
#include "scheduler/scheduler.h"

namespace espalier::scheduler {

enum class PassRole : uint8_t { kMain, kInterlude };

class BatchRunner {
 public:
  /// Passes after a failed one, at most: enough to find one guilty sequence among 65 536 (two
  /// halves a level).
  static constexpr size_t kRetryPassesMax = 32;

  /// Called at each pause of a pass over `running`, which somebody still wants; tells `pace` for
  /// how long it made the pass stand still. Must not throw.
  using Pause = std::function<void(const Batch& running, PassPace& pace)>;

  /// `passes` by model, null where no batch will come. All must outlive the runner; `observer` may
  /// be null.
  BatchRunner(std::vector<engine::ForwardPass*> passes, PassRole role, engine::DedupMode dedup,
              CostModels& costs, AdmissionControl& admission, SchedulerObserver* observer);

  /// Fulfils or fails every ticket of `batch`, or leaves them if all requests have ended; a batch
  /// of which that is known beforehand is not run. `pause` may be empty.
  void run(const Batch& batch, const Pause& pause);

 private:
  void report(const Batch& batch, Clock::time_point started, double seconds, bool failed,
              bool abandoned);
  std::optional<std::string> compute(const Batch& batch, const Pause& pause);
  void retry_in_halves(std::span<const Ticket> tickets, const std::string& error,
                       const Pause& pause);
  std::optional<std::string> retry(std::span<const Ticket> tickets, const Pause& pause);

  std::vector<engine::ForwardPass*> passes_;
  PassRole role_;
  CostModels& costs_;
  AdmissionControl& admission_;
  SchedulerObserver* observer_;
  Planner retry_planner_;
  Batch retry_batch_;
  Clock::time_point last_ended_{};
};

/// The hidden states that sequence `s` of `plan` wants, taken from `states`, the (W × H) result for
/// plan.wanted_rows: its last or first row, the mean of all, or all in the order of its tokens.
/// A mean is added up token by token, in double, so its bits do not depend on where the trie of the
/// batch branches.
HiddenStates copy_hidden_states(const engine::BatchPlan& plan, engine::ConstMatView states,
                                size_t s, WantedRows wanted);

}  // namespace espalier::scheduler
