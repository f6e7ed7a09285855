// Prometheus metrics. Present with zero from the start. The only file that includes prometheus-cpp
// is metrics.cpp.
//
// Thread contract: every member may be called from any thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "scheduler/scheduler.h"
#include "server/service/inference_service.h"

namespace espalier::server {

class Metrics final : public scheduler::SchedulerObserver {
 public:
  Metrics();
  ~Metrics() override;

  void on_batch(const scheduler::BatchReport& report) override;
  /// Counts the request, also under the reason if its status says that it was turned away.
  void on_request(const std::string& route, int status, double seconds);
  void on_stages(const StageTimes& times);
  /// A request that is larger than anything that may wait (its status, 400, does not tell).
  void on_never_fits();
  /// Requests answered 503 because a drain ran out of time.
  void on_abandoned(size_t requests);

  /// The exposition text (version 0.0.4), with the queue's depth as of now.
  std::string exposition(const scheduler::QueueDepth& depth) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace espalier::server
