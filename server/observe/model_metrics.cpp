#include "server/observe/model_metrics.h"

namespace espalier::server {

ModelMetrics::ModelMetrics(prometheus::Registry& registry, const prometheus::Labels& labels)
    : batches_(registry, labels),
      tokenize_seconds_(histogram(registry, "espalier_tokenize_duration_seconds",
                                  "Tokenizing all inputs of a request.", duration_buckets(),
                                  labels)),
      queue_seconds_(
          histogram(registry, "espalier_queue_duration_seconds",
                    "From a request's admission until its first sequence was taken into a batch.",
                    duration_buckets(), labels)),
      wait_seconds_(summary(registry, "espalier_wait_seconds",
                            "Percentiles, over five minutes, of the time from a request's "
                            "admission until its first sequence was taken into a batch.",
                            labels)),
      inference_seconds_(histogram(registry, "espalier_inference_duration_seconds",
                                   "From then until its last sequence was done.",
                                   duration_buckets(), labels)),
      queue_tickets_(
          gauge(registry, "espalier_queue_tickets", "Sequences waiting for a batch.", labels)),
      queue_tokens_(gauge(registry, "espalier_queue_tokens",
                          "Tokens of the sequences waiting for a batch.", labels)) {}

void ModelMetrics::on_stages(const RequestReport& report) {
  answered_.fetch_add(1, std::memory_order_relaxed);
  tokenize_seconds_.Observe(report.tokenize_seconds);
  queue_seconds_.Observe(report.queue_seconds);
  wait_seconds_.Observe(report.queue_seconds);
  inference_seconds_.Observe(report.compute_seconds);
}

void ModelMetrics::set_queue(const scheduler::QueueDepth& depth) {
  queue_tickets_.Set(static_cast<double>(depth.tickets));
  queue_tokens_.Set(static_cast<double>(depth.tokens));
}

}  // namespace espalier::server
