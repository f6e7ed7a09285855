// Prometheus metrics. Present with zero from the start. The only file that includes prometheus-cpp
// is metrics.cpp.
//
// Thread contract: every member may be called from any thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "scheduler/scheduler.h"
#include "server/inference_service.h"

namespace espalier::server {

class Metrics final : public scheduler::SchedulerObserver {
 public:
  Metrics();
  ~Metrics() override;

  void on_batch(const scheduler::BatchReport& report) override;
  void on_request(const std::string& route, int status, double seconds);
  void on_stages(const StageTimes& times);
  /// Requests answered 503 because a drain ran out of time.
  void on_abandoned(size_t requests);

  /// The exposition text (version 0.0.4), with the queue's depth as of now.
  std::string exposition(const scheduler::QueueDepth& depth) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace espalier::server
