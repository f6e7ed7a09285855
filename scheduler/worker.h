// Runs batches, and short ones in the pauses of long ones. No thread of its own.
//
// In a pause it runs one interlude after another until nothing that waits may overtake, or until
// interludes have had their share of the running pass's time. Interludes are not interrupted.
//
// Thread contract: one thread at a time.
#pragma once

#include <functional>
#include <vector>

#include "scheduler/admission.h"
#include "scheduler/batch.h"
#include "scheduler/batch_runner.h"
#include "scheduler/interlude_planner.h"
#include "scheduler/pass_pace.h"
#include "scheduler/scheduler.h"

namespace espalier::scheduler {

class Worker {
 public:
  /// All passes, `costs`, `admission` and `observer` must outlive the worker; `observer` may be
  /// null.
  Worker(const std::vector<ModelPasses>& models, const SchedulerLimits& limits, CostModels& costs,
         AdmissionControl& admission, SchedulerObserver* observer);

  /// Fulfils or fails every ticket of `batch`, unless all its requests end before it is through.
  /// Without `interludes` nothing overtakes. `nearly_done` (may be empty) is called once the pass
  /// is about to end, or late in it: while there is time to plan the next one.
  void run(const Batch& batch, InterludeSource* interludes,
           const std::function<void()>& nearly_done);

 private:
  bool run_interludes(InterludeSource& interludes, const Batch& running, PassPace& pace) noexcept;

  const SchedulerLimits limits_;
  std::vector<bool> may_overtake_;  // by model
  bool any_may_overtake_ = false;
  BatchRunner main_;
  BatchRunner interlude_;
  Batch interlude_batch_;
};

}  // namespace espalier::scheduler
