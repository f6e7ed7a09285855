#include "server/observe/metrics.h"

#include <gmock/gmock.h>

namespace espalier::server {
namespace {

using testing::HasSubstr;

TEST(Metrics, AreThereWithZeroFromTheStart) {
  const auto text = Metrics().exposition({});
  for (const char* line : {"espalier_requests_total{route=\"/v1/embeddings\",status=\"200\"} 0",
                           "espalier_requests_total{route=\"/v1/rerank\",status=\"200\"} 0",
                           "espalier_requests_total{route=\"/health\",status=\"200\"} 0",
                           "espalier_tokens_total 0",
                           "espalier_compact_tokens_total 0",
                           "espalier_batches_total 0",
                           "espalier_batch_failures_total 0",
                           "espalier_abandoned_requests_total 0",
                           "espalier_rows_saved_total 0",
                           "espalier_plan_refinements_total 0",
                           "espalier_worker_idle_seconds_total 0",
                           "espalier_wait_seconds_count 0",
                           "espalier_batch_closed_total{reason=\"queue_empty\"} 0",
                           "espalier_batch_closed_total{reason=\"sequences\"} 0",
                           "espalier_rejected_total{reason=\"queue_full\"} 0",
                           "espalier_queue_tickets 0",
                           "espalier_queue_tokens 0",
                           "espalier_request_duration_seconds_count{route=\"/v1/rerank\"} 0",
                           "espalier_tokenize_duration_seconds_count 0",
                           "espalier_queue_duration_seconds_count 0",
                           "espalier_plan_duration_seconds_count 0",
                           "espalier_compute_duration_seconds_count 0"}) {
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

TEST(Metrics, WhatSharingSavedIsCountedAndItsRatioFollowsTheLastBatches) {
  Metrics metrics;
  EXPECT_THAT(metrics.exposition({}), HasSubstr("espalier_compression_ratio 1\n"));
  scheduler::BatchReport report;
  report.full_rows = 100;
  report.compact_rows = 25;
  metrics.on_batch(report);
  auto text = metrics.exposition({});
  EXPECT_THAT(text, HasSubstr("espalier_rows_saved_total 75\n"));
  EXPECT_THAT(text, HasSubstr("espalier_compression_ratio 4\n"));
  report.compact_rows = 100;
  for (int i = 0; i < 1000; ++i) metrics.on_batch(report);
  text = metrics.exposition({});
  EXPECT_THAT(text, HasSubstr("espalier_rows_saved_total 75\n"));
  EXPECT_THAT(text, HasSubstr("espalier_compression_ratio 1\n"));
}

TEST(Metrics, BatchesTellWhyTheyClosedAndWhatTheWorkerWaitedFor) {
  Metrics metrics;
  scheduler::BatchReport report;
  report.closed = scheduler::BatchClosed::kSeconds;
  report.refinements = 3;
  report.idle_seconds = 0.25;
  metrics.on_batch(report);
  metrics.on_batch(report);
  const auto text = metrics.exposition({});
  EXPECT_THAT(text, HasSubstr("espalier_batch_closed_total{reason=\"seconds\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("espalier_batch_closed_total{reason=\"rows\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("espalier_plan_refinements_total 6\n"));
  EXPECT_THAT(text, HasSubstr("espalier_worker_idle_seconds_total 0.5\n"));
  EXPECT_THAT(text, HasSubstr("espalier_worker_idle_duration_seconds_count 2\n"));
}

TEST(Metrics, RequestsTurnedAwayAreCountedByReason) {
  Metrics metrics;
  metrics.on_request("/v1/rerank", 401, 0);
  metrics.on_request("/v1/rerank", 413, 0);
  metrics.on_never_fits();
  metrics.on_request("/v1/embeddings", 429, 0);
  metrics.on_request("/v1/embeddings", 503, 0);
  metrics.on_request("/health", 503, 0);
  metrics.on_request("/v1/embeddings", 504, 0);
  metrics.on_request("/v1/embeddings", 400, 0);
  const auto text = metrics.exposition({});
  for (const char* line : {"{reason=\"unauthorized\"} 1\n", "{reason=\"too_large\"} 2\n",
                           "{reason=\"queue_full\"} 1\n", "{reason=\"shutting_down\"} 1\n",
                           "{reason=\"deadline\"} 1\n"}) {
    EXPECT_THAT(text, HasSubstr(std::string("espalier_rejected_total") + line));
  }
}

TEST(Metrics, WaitsAreShownByPercentile) {
  Metrics metrics;
  for (int i = 1; i <= 100; ++i) metrics.on_stages({.queue_seconds = i / 100.0});
  const auto text = metrics.exposition({});
  EXPECT_THAT(text, HasSubstr("espalier_wait_seconds_count 100\n"));
  for (const char* quantile : {"0.5", "0.9", "0.99"})
    EXPECT_THAT(text, HasSubstr(std::string("espalier_wait_seconds{quantile=\"") + quantile));
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
  metrics.on_stages({.tokenize_seconds = 0.1, .queue_seconds = 0.2, .compute_seconds = 0.3});
  const auto text = metrics.exposition({7, 700});
  EXPECT_THAT(text, HasSubstr("espalier_queue_tickets 7\n"));
  EXPECT_THAT(text, HasSubstr("espalier_queue_tokens 700\n"));
  EXPECT_THAT(text, HasSubstr("espalier_abandoned_requests_total 3\n"));
  EXPECT_THAT(text, HasSubstr("espalier_tokenize_duration_seconds_count 1\n"));
}

}  // namespace
}  // namespace espalier::server
