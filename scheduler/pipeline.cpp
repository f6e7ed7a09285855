#include "scheduler/pipeline.h"

#include <memory>
#include <utility>

namespace espalier::scheduler {

Pipeline::Pipeline(const SchedulerLimits& limits, TicketQueue& queue, Worker& worker)
    : queue_(queue),
      worker_(worker),
      planner_(limits),
      interlude_planner_(limits, queue, hand_off_) {
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
    planner_.plan_next(queue_, *batch);
    hand_off_.put(std::move(batch));
  }
}

void Pipeline::run_batches() {
  while (std::unique_ptr<Batch> batch = hand_off_.take()) {
    worker_.run(*batch, &interlude_planner_);
    hand_off_.give_back(std::move(batch));
  }
}

}  // namespace espalier::scheduler
