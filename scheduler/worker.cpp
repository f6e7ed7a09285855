#include "scheduler/worker.h"

#include <algorithm>
#include <optional>

#include "scheduler/clock.h"

namespace espalier::scheduler {
namespace {

std::vector<engine::ForwardPass*> passes_of(const std::vector<ModelPasses>& models, PassRole role) {
  std::vector<engine::ForwardPass*> passes;
  passes.reserve(models.size());
  for (const ModelPasses& model : models) {
    passes.push_back(role == PassRole::kMain ? model.main : model.interlude);
  }
  return passes;
}

/// Time in which any batch is planned, on a busy machine too …
constexpr double kPlanningSecondsMin = 0.02;
/// … and the longest before the end of a pass that the next batch is settled.
constexpr double kPlanningSecondsMax = 0.25;

/// Whether this may be the last pause before it is too late to plan the next batch in time.
bool is_nearly_done(const PassPace& pace) {
  return pace.seconds_left() <=
         std::clamp(2 * pace.step_seconds(), kPlanningSecondsMin, kPlanningSecondsMax);
}

}  // namespace

Worker::Worker(const std::vector<ModelPasses>& models, const SchedulerLimits& limits,
               CostModels& costs, AdmissionControl& admission, SchedulerObserver* observer)
    : limits_(limits),
      main_(passes_of(models, PassRole::kMain), PassRole::kMain, limits.dedup, costs, admission,
            observer),
      interlude_(passes_of(models, PassRole::kInterlude), PassRole::kInterlude, limits.dedup, costs,
                 admission, observer) {
  for (const ModelPasses& model : models) {
    may_overtake_.push_back(model.interlude != nullptr);
    any_may_overtake_ = any_may_overtake_ || model.interlude != nullptr;
  }
}

void Worker::run(const Batch& batch, InterludeSource* interludes,
                 const std::function<void()>& nearly_done) {
  main_.run(batch, [&](const Batch& running, PassPace& pace) {
    // What waits must stay in the queue as long as it may run within this pass.
    const bool interruptible =
        interludes != nullptr && any_may_overtake_ && run_interludes(*interludes, running, pace);
    if (nearly_done && !interruptible && is_nearly_done(pace)) {
      nearly_done();
    }
  });
}

/// Whether more could run now if there were any.
bool Worker::run_interludes(InterludeSource& interludes, const Batch& running,
                            PassPace& pace) noexcept {
  for (;;) {
    const std::optional<InterludeBudget> budget =
        interlude_budget(limits_, running, pace, may_overtake_);
    const Clock::time_point started = Clock::now();
    if (!budget || !interludes.next(*budget, interlude_batch_)) {
      return budget.has_value();
    }
    interlude_.run(interlude_batch_, {});
    interlude_batch_.choice.clear();
    pace.stood_still(seconds_between(started, Clock::now()));
  }
}

}  // namespace espalier::scheduler
