// One scheduler's reports for several observers.
//
// Thread contract: as the observers'; the list never changes.
#pragma once

#include <utility>
#include <vector>

#include "scheduler/scheduler.h"

namespace espalier::server {

class BatchFanOut final : public scheduler::SchedulerObserver {
 public:
  /// All must outlive it; null ones are left out.
  explicit BatchFanOut(const std::vector<scheduler::SchedulerObserver*>& observers) {
    for (auto* const observer : observers)
      if (observer != nullptr) observers_.push_back(observer);
  }

  void on_batch(const scheduler::BatchReport& report) override {
    for (auto* const observer : observers_) observer->on_batch(report);
  }

 private:
  std::vector<scheduler::SchedulerObserver*> observers_;
};

}  // namespace espalier::server
