#include "server/observe/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/summary.h>
#include <prometheus/text_serializer.h>

#include <array>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>

#include "server/api/route_paths.h"
#include "server/observe/batch_closed_name.h"

namespace espalier::server {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Registry;
using prometheus::Summary;

/// 0.1 ms to 5 minutes: from a planned batch to the longest request.
const Histogram::BucketBoundaries& duration_buckets() {
  static const Histogram::BucketBoundaries buckets{
      0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
      0.5,    1,      2.5,   5,      10,    30,   60,    120,  300};
  return buckets;
}

Counter& counter(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add({});
}
Gauge& gauge(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
}
Family<Histogram>& histograms(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}
Histogram& histogram(Registry& registry, const char* name, const char* help) {
  return histograms(registry, name, help).Add({}, duration_buckets());
}

Family<Counter>& counters(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

/// Median, 90th and 99th percentile of the last five minutes, each with its error.
Summary& summary(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildSummary().Name(name).Help(help).Register(registry).Add(
      {}, Summary::Quantiles{{0.5, 0.02}, {0.9, 0.01}, {0.99, 0.001}}, std::chrono::minutes(5), 5);
}

// Reasons for which requests are turned away.
constexpr char kTooLarge[] = "too_large";
constexpr char kQueueFull[] = "queue_full";
constexpr char kDeadline[] = "deadline";
constexpr char kShuttingDown[] = "shutting_down";
constexpr char kUnauthorized[] = "unauthorized";

/// Why a request was turned away, by the status of its answer; null if it was not.
const char* reason_of(const std::string& route, int status) {
  switch (status) {
    case 401:
      return kUnauthorized;
    case 413:
      return kTooLarge;
    case 429:
      return kQueueFull;
    case 503:  // also what GET /health answers while draining, which is no request turned away
      return route == kHealthPath || route == kReadyPath ? nullptr : kShuttingDown;
    case 504:
      return kDeadline;
    default:
      return nullptr;
  }
}

/// Tokens for each computed row, of late: a batch weighs 5 % less with each one after it, so it is
/// that of about the last twenty, large ones counting for more than small ones.
class RecentCompression {
 public:
  double observe(size_t tokens, size_t rows) {
    const std::lock_guard lock(mutex_);
    tokens_ = kKept * tokens_ + static_cast<double>(tokens);
    rows_ = kKept * rows_ + static_cast<double>(rows);
    return rows_ > 0 ? tokens_ / rows_ : 1;
  }

 private:
  static constexpr double kKept = 0.95;
  std::mutex mutex_;
  double tokens_ = 0;
  double rows_ = 0;
};

}  // namespace

struct Metrics::Impl {
  const std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
  std::atomic<uint64_t> answered_requests = 0;  // by the model
  Registry registry;

  Family<Counter>& requests = prometheus::BuildCounter()
                                  .Name("espalier_requests_total")
                                  .Help(
                                      "HTTP requests answered, by route and status; 499: the "
                                      "client had gone.")
                                  .Register(registry);
  Counter& abandoned =
      counter(registry, "espalier_abandoned_requests_total",
              "Accepted requests answered 503 because a shutdown ran out of time.");
  Counter& tokens =
      counter(registry, "espalier_tokens_total", "Tokens of computed sequences (full rows).");
  Counter& compact_tokens =
      counter(registry, "espalier_compact_tokens_total",
              "Rows computed for them: every distinct prefix of a batch once (compact rows).");
  Counter& rows_saved =
      counter(registry, "espalier_rows_saved_total",
              "Rows that were not computed because sequences of a batch share them.");
  Gauge& compression_ratio =
      gauge(registry, "espalier_compression_ratio",
            "Tokens for each row computed, of about the last 20 batches (each weighs 5 % less with "
            "every one after it); 1: nothing shared, or no batch yet.");
  RecentCompression recent_compression;
  Counter& batches = counter(registry, "espalier_batches_total", "Batches run, failed ones too.");
  Counter& batch_failures =
      counter(registry, "espalier_batch_failures_total", "Batches whose forward pass failed.");
  Counter& batches_abandoned =
      counter(registry, "espalier_batches_abandoned_total",
              "Batches given up while they ran, because nobody waited for their results any more.");
  Family<Counter>& batches_closed = counters(
      registry, "espalier_batch_closed_total",
      "Batches by what kept them from taking in more: nothing else waited, or the limit of "
      "their rows, sequences or predicted seconds.");
  std::array<Counter*, 4> batches_closed_by{};  // by BatchClosed
  Counter& plan_refinements =
      counter(registry, "espalier_plan_refinements_total",
              "Times that a waiting plan was made anew because inputs had come or gone.");
  Counter& idle_seconds = counter(registry, "espalier_worker_idle_seconds_total",
                                  "Time that the worker stood still although inputs waited.");
  Histogram& idle_gaps =
      histogram(registry, "espalier_worker_idle_duration_seconds",
                "Time that the worker stood still before a batch although inputs waited.");
  Family<Counter>& rejected = counters(
      registry, "espalier_rejected_total",
      "Requests turned away: larger than the limits, queue (or memory for bodies) full, deadline "
      "missed, server shutting down, no valid API key.");
  Counter& interludes = counter(registry, "espalier_interludes_total",
                                "Batches of short inputs that ran within a long one.");
  Counter& sequences =
      counter(registry, "espalier_sequences_total", "Sequences computed: inputs and documents.");
  Gauge& queue_tickets =
      gauge(registry, "espalier_queue_tickets", "Sequences waiting for a batch.");
  Gauge& queue_tokens =
      gauge(registry, "espalier_queue_tokens", "Tokens of the sequences waiting for a batch.");
  Family<Histogram>& request_seconds =
      histograms(registry, "espalier_request_duration_seconds",
                 "From a request's head to its answer's last byte, by route.");
  Histogram& tokenize_seconds = histogram(registry, "espalier_tokenize_duration_seconds",
                                          "Tokenizing all inputs of a request.");
  Histogram& queue_seconds =
      histogram(registry, "espalier_queue_duration_seconds",
                "From a request's admission until its first sequence was taken into a batch.");
  Summary& wait_seconds = summary(registry, "espalier_wait_seconds",
                                  "Percentiles, over five minutes, of the time from a request's "
                                  "admission until its first sequence was taken into a batch.");
  Histogram& inference_seconds = histogram(registry, "espalier_inference_duration_seconds",
                                           "From then until its last sequence was done.");
  Histogram& plan_seconds =
      histogram(registry, "espalier_plan_duration_seconds", "Planning a batch.");
  Histogram& compute_seconds =
      histogram(registry, "espalier_compute_duration_seconds", "The forward pass of a batch.");
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {
  // Present with zero before the first request: a rate over a missing series is no rate.
  for (const char* route : {kEmbeddingsPath, kRerankPath, kModelsPath, kLivePath, kReadyPath, kHealthPath, kMetricsPath}) {
    impl_->requests.Add({{"route", route}, {"status", "200"}});
    impl_->request_seconds.Add({{"route", route}}, duration_buckets());
  }
  for (const char* reason : {kTooLarge, kQueueFull, kDeadline, kShuttingDown, kUnauthorized})
    impl_->rejected.Add({{"reason", reason}});
  using scheduler::BatchClosed;
  for (const auto closed : {BatchClosed::kQueueEmpty, BatchClosed::kRows, BatchClosed::kSequences,
                            BatchClosed::kSeconds}) {
    impl_->batches_closed_by[static_cast<size_t>(closed)] =
        &impl_->batches_closed.Add({{"reason", name_of(closed)}});
  }
  impl_->compression_ratio.Set(1);
}

Metrics::~Metrics() = default;

void Metrics::on_batch(const scheduler::BatchReport& report) {
  impl_->batches.Increment();
  impl_->plan_seconds.Observe(report.plan_seconds);
  impl_->batches_closed_by[static_cast<size_t>(report.closed)]->Increment();
  impl_->plan_refinements.Increment(static_cast<double>(report.refinements));
  if (!report.interlude) {
    impl_->idle_seconds.Increment(report.idle_seconds);
    impl_->idle_gaps.Observe(report.idle_seconds);
  }
  if (report.failed) {
    impl_->batch_failures.Increment();
    return;
  }
  if (report.abandoned) {
    impl_->batches_abandoned.Increment();
    return;
  }
  if (report.interlude) impl_->interludes.Increment();
  impl_->tokens.Increment(static_cast<double>(report.full_rows));
  impl_->compact_tokens.Increment(static_cast<double>(report.compact_rows));
  // A plan never has more rows than tokens; a report that says so must not wrap around.
  const size_t shared = report.full_rows - std::min(report.full_rows, report.compact_rows);
  impl_->rows_saved.Increment(static_cast<double>(shared));
  impl_->compression_ratio.Set(
      impl_->recent_compression.observe(report.full_rows, report.compact_rows));
  impl_->sequences.Increment(static_cast<double>(report.sequences));
  impl_->compute_seconds.Observe(report.compute_seconds);
}

void Metrics::on_request(const std::string& route, int status, double seconds) {
  impl_->requests.Add({{"route", route}, {"status", std::to_string(status)}}).Increment();
  impl_->request_seconds.Add({{"route", route}}, duration_buckets()).Observe(seconds);
  if (const char* reason = reason_of(route, status))
    impl_->rejected.Add({{"reason", reason}}).Increment();
}

void Metrics::on_never_fits() { impl_->rejected.Add({{"reason", kTooLarge}}).Increment(); }

void Metrics::on_stages(const RequestReport& report) {
  ++impl_->answered_requests;
  impl_->tokenize_seconds.Observe(report.tokenize_seconds);
  impl_->queue_seconds.Observe(report.queue_seconds);
  impl_->wait_seconds.Observe(report.queue_seconds);
  impl_->inference_seconds.Observe(report.compute_seconds);
}

Totals Metrics::totals() const {
  const std::chrono::duration<double> uptime = std::chrono::steady_clock::now() - impl_->started;
  const auto count = [](const Counter& counter) { return static_cast<uint64_t>(counter.Value()); };
  return {uptime.count(), impl_->answered_requests.load(), count(impl_->tokens),
          count(impl_->compact_tokens), count(impl_->rows_saved)};
}

void Metrics::on_abandoned(size_t requests) {
  impl_->abandoned.Increment(static_cast<double>(requests));
}

std::string Metrics::exposition(const scheduler::QueueDepth& depth) const {
  impl_->queue_tickets.Set(static_cast<double>(depth.tickets));
  impl_->queue_tokens.Set(static_cast<double>(depth.tokens));
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

}  // namespace espalier::server
