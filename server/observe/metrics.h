// Prometheus metrics. Present with zero from the start. The only file that includes prometheus-cpp
// is metrics.cpp.
//
// Thread contract: every member may be called from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "scheduler/scheduler.h"
#include "server/service/request_report.h"

namespace espalier::server {

/// Since the start.
struct Totals {
  double uptime_seconds = 0;
  uint64_t requests = 0;       // that the model answered, not those of who only looks
  uint64_t tokens = 0;         // of finished batches
  uint64_t computed_rows = 0;  // for them
  uint64_t rows_saved = 0;     // the difference
};

class Metrics final : public scheduler::SchedulerObserver {
 public:
  Metrics();
  ~Metrics() override;

  void on_batch(const scheduler::BatchReport& report) override;
  /// Counts the request, also under the reason if its status says that it was turned away.
  void on_request(const std::string& route, int status, double seconds);
  void on_stages(const RequestReport& report);
  /// A request that is larger than anything that may wait (its status, 400, does not tell).
  void on_never_fits();
  /// Requests answered 503 because a drain ran out of time.
  void on_abandoned(size_t requests);

  Totals totals() const;

  /// The exposition text (version 0.0.4), with the queue's depth as of now.
  std::string exposition(const scheduler::QueueDepth& depth) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace espalier::server
