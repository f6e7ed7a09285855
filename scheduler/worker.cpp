#include "scheduler/worker.h"

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

}  // namespace

Worker::Worker(const std::vector<ModelPasses>& models, const SchedulerLimits& limits,
               AdmissionControl& admission, SchedulerObserver* observer)
    : limits_(limits),
      main_(passes_of(models, PassRole::kMain), PassRole::kMain, limits, admission, observer),
      interlude_(passes_of(models, PassRole::kInterlude), PassRole::kInterlude, limits, admission,
                 observer) {
  for (const ModelPasses& model : models) {
    may_overtake_.push_back(model.interlude != nullptr);
    any_may_overtake_ = any_may_overtake_ || model.interlude != nullptr;
  }
}

void Worker::run(const Batch& batch, InterludeSource* interludes) {
  if (interludes == nullptr || !any_may_overtake_) {
    main_.run(batch, {});
    return;
  }
  main_.run(batch, [&](const Batch& running, PassPace& pace) {
    run_interludes(*interludes, running, pace);
  });
  interludes->pass_ended();
}

void Worker::run_interludes(InterludeSource& interludes, const Batch& running,
                            PassPace& pace) noexcept {
  for (;;) {
    const std::optional<InterludeBudget> budget =
        interlude_budget(limits_, running, pace, may_overtake_);
    const Clock::time_point started = Clock::now();
    if (!budget || !interludes.next(*budget, interlude_batch_)) {
      return;
    }
    interlude_.run(interlude_batch_, {});
    interlude_batch_.tickets.clear();
    pace.stood_still(seconds_between(started, Clock::now()));
  }
}

}  // namespace espalier::scheduler
