#include "server/metrics.h"

#include <gmock/gmock.h>

namespace espalier::server {
namespace {

using testing::HasSubstr;

TEST(Metrics, AreThereWithZeroFromTheStart) {
  const auto text = Metrics().exposition({});
  for (const char* line :
       {"espalier_requests_total{route=\"/v1/embeddings\",status=\"200\"} 0",
        "espalier_requests_total{route=\"/v1/rerank\",status=\"200\"} 0",
        "espalier_requests_total{route=\"/health\",status=\"200\"} 0", "espalier_tokens_total 0",
        "espalier_compact_tokens_total 0", "espalier_batches_total 0",
        "espalier_batch_failures_total 0", "espalier_abandoned_requests_total 0",
        "espalier_queue_tickets 0", "espalier_queue_tokens 0",
        "espalier_request_duration_seconds_count{route=\"/v1/rerank\"} 0",
        "espalier_tokenize_duration_seconds_count 0", "espalier_queue_duration_seconds_count 0",
        "espalier_plan_duration_seconds_count 0", "espalier_compute_duration_seconds_count 0"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(Metrics, BatchesCountTheirRows) {
  Metrics metrics;
  scheduler::BatchReport report;
  report.sequences = 3;
  report.full_rows = 100;
  report.compact_rows = 40;
  metrics.on_batch(report);
  metrics.on_batch(report);
  const auto text = metrics.exposition({});
  EXPECT_THAT(text, HasSubstr("espalier_tokens_total 200\n"));
  EXPECT_THAT(text, HasSubstr("espalier_compact_tokens_total 80\n"));
  EXPECT_THAT(text, HasSubstr("espalier_sequences_total 6\n"));
  EXPECT_THAT(text, HasSubstr("espalier_batches_total 2\n"));
}

TEST(Metrics, FailedBatchesComputeNothing) {
  Metrics metrics;
  scheduler::BatchReport report;
  report.full_rows = 100;
  report.failed = true;
  metrics.on_batch(report);
  const auto text = metrics.exposition({});
  EXPECT_THAT(text, HasSubstr("espalier_tokens_total 0\n"));
  EXPECT_THAT(text, HasSubstr("espalier_batches_total 1\n"));
  EXPECT_THAT(text, HasSubstr("espalier_batch_failures_total 1\n"));
}

TEST(Metrics, RequestsAreCountedByRouteAndStatus) {
  Metrics metrics;
  metrics.on_request("/v1/embeddings", 400, 0.003);
  metrics.on_request("/v1/embeddings", 400, 0.003);
  const auto text = metrics.exposition({});
  EXPECT_THAT(text,
              HasSubstr("espalier_requests_total{route=\"/v1/embeddings\",status=\"400\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("espalier_request_duration_seconds_bucket{route=\"/v1/embeddings\","
                              "le=\"0.005\"} 2\n"));
}

TEST(Metrics, QueueDepthAndAbandonedRequestsAreShown) {
  Metrics metrics;
  metrics.on_abandoned(3);
  metrics.on_stages({0.1, 0.2, 0.3});
  const auto text = metrics.exposition({7, 700});
  EXPECT_THAT(text, HasSubstr("espalier_queue_tickets 7\n"));
  EXPECT_THAT(text, HasSubstr("espalier_queue_tokens 700\n"));
  EXPECT_THAT(text, HasSubstr("espalier_abandoned_requests_total 3\n"));
  EXPECT_THAT(text, HasSubstr("espalier_tokenize_duration_seconds_count 1\n"));
}

}  // namespace
}  // namespace espalier::server
