#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "server/route_paths.h"

namespace espalier::server {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Registry;

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

}  // namespace

struct Metrics::Impl {
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
  Counter& batches = counter(registry, "espalier_batches_total", "Batches run, failed ones too.");
  Counter& batch_failures =
      counter(registry, "espalier_batch_failures_total", "Batches whose forward pass failed.");
  Counter& batches_abandoned =
      counter(registry, "espalier_batches_abandoned_total",
              "Batches given up while they ran, because nobody waited for their results any more.");
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
  Histogram& inference_seconds = histogram(registry, "espalier_inference_duration_seconds",
                                           "From then until its last sequence was done.");
  Histogram& plan_seconds =
      histogram(registry, "espalier_plan_duration_seconds", "Planning a batch.");
  Histogram& compute_seconds =
      histogram(registry, "espalier_compute_duration_seconds", "The forward pass of a batch.");
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {
  // Present with zero before the first request: a rate over a missing series is no rate.
  for (const char* route : {kEmbeddingsPath, kRerankPath, kModelsPath, kHealthPath, kMetricsPath}) {
    impl_->requests.Add({{"route", route}, {"status", "200"}});
    impl_->request_seconds.Add({{"route", route}}, duration_buckets());
  }
}

Metrics::~Metrics() = default;

void Metrics::on_batch(const scheduler::BatchReport& report) {
  impl_->batches.Increment();
  impl_->plan_seconds.Observe(report.plan_seconds);
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
  impl_->sequences.Increment(static_cast<double>(report.sequences));
  impl_->compute_seconds.Observe(report.compute_seconds);
}

void Metrics::on_request(const std::string& route, int status, double seconds) {
  impl_->requests.Add({{"route", route}, {"status", std::to_string(status)}}).Increment();
  impl_->request_seconds.Add({{"route", route}}, duration_buckets()).Observe(seconds);
}

void Metrics::on_stages(const StageTimes& times) {
  impl_->tokenize_seconds.Observe(times.tokenize_seconds);
  impl_->queue_seconds.Observe(times.queue_seconds);
  impl_->inference_seconds.Observe(times.compute_seconds);
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
