#include "scheduler/pipeline.h"

#include <memory>
#include <utility>

namespace espalier::scheduler {

Pipeline::Pipeline(const SchedulerLimits& limits, const CostModels& costs, TicketQueue& queue,
                   Worker& worker)
    : limits_(limits),
      queue_(queue),
      worker_(worker),
      planner_(limits.dedup, costs),
      interlude_planner_(limits, costs, queue) {
  try {
    planner_thread_ = std::thread([this] { plan_batches(); });
    worker_thread_ = std::thread([this] { run_batches(); });
  } catch (...) {
    stop();  // the second thread could not be started
    throw;
  }
}

Pipeline::~Pipeline() { stop(); }

void Pipeline::stop() {
  queue_.stop();
  hand_off_.close();
  for (std::thread* thread : {&planner_thread_, &worker_thread_}) {
    if (thread->joinable()) {
      thread->join();
    }
  }
}

void Pipeline::plan_batches() {
  while (queue_.wait_for_tickets()) {
    std::unique_ptr<Batch> batch = hand_off_.wait_for_spare();
    if (batch == nullptr) {
      return;
    }
    if (plan_one(*batch)) {
      hand_off_.put(std::move(batch));
    } else {
      hand_off_.give_back(std::move(batch));
    }
  }
}

/// Plans ahead, plans anew if the queue has changed by the time that the worker wants the batch,
/// and takes the tickets out of the queue. False if there is nothing to run after all.
bool Pipeline::plan_one(Batch& batch) {
  batch.refinements = 0;
  if (!planner_.plan_next(queue_, BatchRules::of(limits_), Clock::now(), batch)) {
    return false;
  }
  switch (hand_off_.wait_until_wanted()) {
    case Wanted::kNever:
      return false;
    case Wanted::kNow:
      if (!gather(batch)) {
        return false;
      }
      break;
    case Wanted::kSoon:
      break;
  }
  if (queue_.version() != batch.version && !plan_again(batch)) {
    return false;
  }
  while (!queue_.dispatch(batch.choice)) {
    if (!plan_again(batch)) {
      return false;
    }
  }
  mark_taken(batch, Clock::now());
  return true;
}

bool Pipeline::plan_again(Batch& batch) {
  ++batch.refinements;
  return planner_.plan_next(queue_, BatchRules::of(limits_), Clock::now(), batch);
}

/// With the worker idle, gives others the time of the batch window to come, unless the batch is
/// full. False if meanwhile all that waited has gone.
bool Pipeline::gather(Batch& batch) {
  const Clock::time_point until = batch.oldest + limits_.batch_window;
  while (batch.choice.closed == BatchClosed::kQueueEmpty && Clock::now() < until &&
         queue_.has_tickets()) {
    queue_.wait_for_change(batch.version, until);
    if (queue_.version() != batch.version && !plan_again(batch)) {
      return false;
    }
  }
  return true;
}

void Pipeline::run_batches() {
  const auto nearly_done = [this] { hand_off_.want_soon(); };
  while (std::unique_ptr<Batch> batch = hand_off_.take()) {
    worker_.run(*batch, &interlude_planner_, nearly_done);
    hand_off_.give_back(std::move(batch));
  }
}

}  // namespace espalier::scheduler
