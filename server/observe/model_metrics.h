// What one model tells Prometheus: its batches, how long its requests wait, what waits for it.
//
// Thread contract: any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "scheduler/scheduler.h"
#include "server/observe/batch_metrics.h"
#include "server/observe/metric_families.h"
#include "server/service/request_report.h"

namespace espalier::server {

class ModelMetrics {
 public:
  /// Every series has `labels`.
  ModelMetrics(prometheus::Registry& registry, const prometheus::Labels& labels);

  void on_batch(const scheduler::BatchReport& report) { batches_.on_batch(report); }
  /// A computed request's stages.
  void on_stages(const RequestReport& report);
  void set_queue(const scheduler::QueueDepth& depth);

  const BatchMetrics& batches() const { return batches_; }
  /// Requests that the model answered, since the start; not those of who only looks.
  uint64_t answered() const { return answered_.load(std::memory_order_relaxed); }

 private:
  BatchMetrics batches_;
  prometheus::Histogram& tokenize_seconds_;
  prometheus::Histogram& queue_seconds_;
  prometheus::Summary& wait_seconds_;
  prometheus::Histogram& inference_seconds_;
  prometheus::Gauge& queue_tickets_;
  prometheus::Gauge& queue_tokens_;
  std::atomic<uint64_t> answered_ = 0;
};

}  // namespace espalier::server
