// What the batches of one model tell Prometheus: rows, sharing, why they closed, how long they
// took.
//
// Thread contract: any thread.
#pragma once

#include <array>
#include <mutex>

#include "scheduler/scheduler.h"
#include "server/observe/metric_families.h"

namespace espalier::server {

/// Tokens for each computed row, of late: a batch weighs 5 % less with each one after it, so it is
/// that of about the last twenty, large ones counting for more than small ones.
class RecentCompression {
 public:
  double observe(size_t tokens, size_t rows);

 private:
  std::mutex mutex_;
  double tokens_ = 0;
  double rows_ = 0;
};

class BatchMetrics {
 public:
  /// Every series has `labels`.
  BatchMetrics(prometheus::Registry& registry, const prometheus::Labels& labels);

  void on_batch(const scheduler::BatchReport& report);

  // Of finished batches since the start.
  double tokens() const { return tokens_.Value(); }
  double compact_tokens() const { return compact_tokens_.Value(); }
  double rows_saved() const { return rows_saved_.Value(); }

 private:
  void on_computed(const scheduler::BatchReport& report);

  prometheus::Counter& tokens_;
  prometheus::Counter& compact_tokens_;
  prometheus::Counter& rows_saved_;
  prometheus::Counter& sequences_;
  prometheus::Gauge& compression_ratio_;
  prometheus::Counter& batches_;
  prometheus::Counter& failures_;
  prometheus::Counter& abandoned_;
  prometheus::Counter& interludes_;
  std::array<prometheus::Counter*, 4> closed_by_{};  // by BatchClosed
  prometheus::Counter& plan_refinements_;
  prometheus::Histogram& batch_rows_;
  prometheus::Histogram& batch_tokens_;
  prometheus::Histogram& batch_sequences_;
  prometheus::Histogram& plan_seconds_;
  prometheus::Histogram& compute_seconds_;
  RecentCompression recent_compression_;
};

}  // namespace espalier::server
