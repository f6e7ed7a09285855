#include "server/observe/metrics.h"

#include <gmock/gmock.h>

#include <ctime>
#include <stdexcept>
#include <thread>

#include "exchange.h"

namespace espalier::server {
namespace {

using testing::HasSubstr;
using testing::Not;

void request(Metrics& metrics, const std::string& route, int status, double seconds = 0) {
  TestExchange exchange(route, status);
  exchange.seconds = seconds;
  metrics.on_request(exchange.get());
}

TEST(Metrics, AreThereWithZeroFromTheStart) {
  Metrics metrics;
  metrics.announce_routes({"/v1/embeddings", "/v1/rerank", "/health", "/v1/models/*"});
  metrics.announce_keys({"shop"});
  const auto text = metrics.exposition({});
  for (const char* line : {"espalier_requests_total{route=\"/v1/embeddings\",status=\"200\"} 0",
                           "espalier_requests_total{route=\"/v1/rerank\",status=\"200\"} 0",
                           "espalier_requests_total{route=\"/health\",status=\"200\"} 0",
                           "espalier_requests_total{route=\"/v1/models/*\",status=\"200\"} 0",
                           "espalier_requests_total{route=\"other\",status=\"404\"} 0",
                           "espalier_request_bytes_total{route=\"/v1/rerank\"} 0",
                           "espalier_response_bytes_total{route=\"/v1/rerank\"} 0",
                           "espalier_requests_in_progress 0",
                           "espalier_request_inputs_count 0",
                           "espalier_batch_rows_count 0",
                           "espalier_batch_tokens_count 0",
                           "espalier_batch_sequences_count 0",
                           "espalier_key_requests_total{key=\"shop\"} 0",
                           "espalier_key_tokens_total{key=\"shop\"} 0",
                           "espalier_key_rows_total{key=\"shop\"} 0",
                           "espalier_ready 0",
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
  metrics.announce_routes({"/v1/rerank", "/v1/embeddings", "/health"});
  request(metrics, "/v1/rerank", 401, 0);
  request(metrics, "/v1/rerank", 413, 0);
  metrics.on_never_fits();
  request(metrics, "/v1/embeddings", 429, 0);
  request(metrics, "/*", 503, 0);
  metrics.set_ready(true);
  metrics.set_ready(false);
  request(metrics, "/v1/embeddings", 503, 0);
  request(metrics, "/health", 503, 0);
  request(metrics, "/v1/embeddings", 504, 0);
  request(metrics, "/v1/embeddings", 400, 0);
  const auto text = metrics.exposition({});
  for (const char* line : {"{reason=\"unauthorized\"} 1\n", "{reason=\"too_large\"} 2\n",
                           "{reason=\"queue_full\"} 1\n", "{reason=\"shutting_down\"} 1\n",
                           "{reason=\"loading\"} 1\n", "{reason=\"deadline\"} 1\n"}) {
    EXPECT_THAT(text, HasSubstr(std::string("espalier_rejected_total") + line));
  }
}

TEST(Metrics, WaitsAreShownByPercentile) {
  Metrics metrics;
  for (int i = 1; i <= 100; ++i) metrics.on_stages(0, {.queue_seconds = i / 100.0});
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
  metrics.announce_routes({"/v1/embeddings"});
  request(metrics, "/v1/embeddings", 400, 0.003);
  request(metrics, "/v1/embeddings", 400, 0.003);
  const auto text = metrics.exposition({});
  EXPECT_THAT(text,
              HasSubstr("espalier_requests_total{route=\"/v1/embeddings\",status=\"400\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("espalier_request_duration_seconds_bucket{route=\"/v1/embeddings\","
                              "le=\"0.005\"} 2\n"));
}

TEST(Metrics, QueueDepthAndAbandonedRequestsAreShown) {
  Metrics metrics;
  metrics.on_abandoned(3);
  metrics.on_stages(0, {.tokenize_seconds = 0.1, .queue_seconds = 0.2, .compute_seconds = 0.3});
  const auto text = metrics.exposition({{7, 700}});
  EXPECT_THAT(text, HasSubstr("espalier_queue_tickets 7\n"));
  EXPECT_THAT(text, HasSubstr("espalier_queue_tokens 700\n"));
  EXPECT_THAT(text, HasSubstr("espalier_abandoned_requests_total 3\n"));
  EXPECT_THAT(text, HasSubstr("espalier_tokenize_duration_seconds_count 1\n"));
}

TEST(Metrics, RoutesThatNobodyAnnouncedAreNoSeriesOfTheirOwn) {
  Metrics metrics;
  request(metrics, "/made/up", 200);
  request(metrics, "/made/up", 99999);
  const auto text = metrics.exposition({});
  EXPECT_THAT(text, HasSubstr("espalier_requests_total{route=\"other\",status=\"200\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("espalier_requests_total{route=\"other\",status=\"599\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("made/up")));
}

TEST(Metrics, AnnouncingARouteAgainKeepsWhatWasCounted) {
  Metrics metrics;
  metrics.announce_routes({"/embed", "/embed"});
  request(metrics, "/embed", 200);
  metrics.announce_routes({"/embed"});
  EXPECT_THAT(metrics.exposition({}),
              HasSubstr("espalier_requests_total{route=\"/embed\",status=\"200\"} 1\n"));
}

TEST(Metrics, ManyThreadsCountWhileTheyAreRead) {
  Metrics metrics;
  metrics.announce_routes({"/embed"});
  metrics.announce_keys({"shop"});
  constexpr int kThreads = 4, kRequests = 500;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&] {
      // The same statuses at the same time: their series are made by whoever comes first.
      for (int i = 0; i < kRequests; ++i) {
        request(metrics, "/embed", 200 + i);
        metrics.on_usage("shop", 2, 1);
      }
    });
  }
  for (int i = 0; i < 20; ++i) metrics.exposition({});
  for (auto& thread : threads) thread.join();
  const auto text = metrics.exposition({});
  for (const int status : {200, 404, 500}) {
    EXPECT_THAT(text, HasSubstr("espalier_requests_total{route=\"/embed\",status=\"" +
                                std::to_string(status) + "\"} 4\n"));
  }
  EXPECT_THAT(text, HasSubstr("espalier_request_duration_seconds_count{route=\"/embed\"} 2000\n"));
  EXPECT_THAT(text, HasSubstr("espalier_key_tokens_total{key=\"shop\"} 4000\n"));
}

TEST(Metrics, TotalsCountWhatTheModelAnsweredAndNotWhoOnlyLooks) {
  Metrics metrics;
  metrics.announce_routes({"/v1/embeddings", "/stats"});
  request(metrics, "/stats", 200);
  EXPECT_EQ(metrics.totals().requests, 0U);
  metrics.on_stages(0, {});
  request(metrics, "/v1/embeddings", 200);
  EXPECT_EQ(metrics.totals().requests, 1U);
}

TEST(Metrics, BytesAndInputsOfRequestsAreCounted) {
  Metrics metrics;
  metrics.announce_routes({"/embed"});
  TestExchange exchange("/embed", 200);
  exchange.request_bytes = 12;
  exchange.response_bytes = 3400;
  exchange.log = {{"tokens", uint64_t{900}}, {"inputs", uint64_t{5}}};
  metrics.on_request(exchange.get());
  exchange.log = {{"inputs", std::string("five")}};  // no number: not counted
  metrics.on_request(exchange.get());
  const auto text = metrics.exposition({});
  EXPECT_THAT(text, HasSubstr("espalier_request_bytes_total{route=\"/embed\"} 24\n"));
  EXPECT_THAT(text, HasSubstr("espalier_response_bytes_total{route=\"/embed\"} 6800\n"));
  EXPECT_THAT(text, HasSubstr("espalier_request_inputs_count 1\n"));
  EXPECT_THAT(text, HasSubstr("espalier_request_inputs_sum 5\n"));
}

TEST(Metrics, BatchesShowTheirSizes) {
  Metrics metrics;
  scheduler::BatchReport report;
  report.sequences = 3;
  report.full_rows = 100;
  report.compact_rows = 40;
  metrics.on_batch(report);
  report.failed = true;
  metrics.on_batch(report);
  const auto text = metrics.exposition({});
  EXPECT_THAT(text, HasSubstr("espalier_batch_rows_bucket{le=\"32\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("espalier_batch_rows_bucket{le=\"64\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("espalier_batch_tokens_sum 100\n"));
  EXPECT_THAT(text, HasSubstr("espalier_batch_sequences_bucket{le=\"4\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("espalier_batch_sequences_count 1\n"));
}

TEST(Metrics, KeysAreChargedForWhatTheyUsed) {
  Metrics metrics;
  metrics.announce_keys({"shop", "batch"});
  metrics.on_usage("shop", 100, 30);
  metrics.on_usage("shop", 10, 0);
  metrics.on_usage("", 7, 7);
  metrics.on_usage("unheard of", 7, 7);
  const auto text = metrics.exposition({});
  EXPECT_THAT(text, HasSubstr("espalier_key_requests_total{key=\"shop\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("espalier_key_tokens_total{key=\"shop\"} 110\n"));
  EXPECT_THAT(text, HasSubstr("espalier_key_rows_total{key=\"shop\"} 30\n"));
  EXPECT_THAT(text, HasSubstr("espalier_key_rows_total{key=\"batch\"} 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("unheard")));
}

TEST(Metrics, NamesCannotBreakTheExposition) {
  Metrics metrics;
  metrics.announce_keys({"a\"b\\c\nd\x1b", "\xff\xfe", std::string(1000, 'k')});
  metrics.announce_models({{"m\"} 1\nforged 2", "f32", "trie", "0.1.0"}});
  metrics.set_build_info("0.1.0", "abc");
  const auto text = metrics.exposition({});
  EXPECT_THAT(text, HasSubstr(R"(espalier_key_tokens_total{key="a\"b\\c?d?"} 0)"));
  EXPECT_THAT(text, HasSubstr("{key=\"\xef\xbf\xbd\xef\xbf\xbd\"} 0"));
  EXPECT_THAT(text, HasSubstr("{key=\"" + std::string(128, 'k') + "\"} 0"));
  EXPECT_THAT(text, HasSubstr(R"(model="m\"} 1?forged 2")"));
  EXPECT_THAT(text, Not(HasSubstr("\nforged")));
  EXPECT_THAT(text, HasSubstr(R"(espalier_build_info{commit="abc",version="0.1.0"} 1)"));
}

TEST(Metrics, RequestsInAHandlerAreInProgressButProbesAreNot) {
  Metrics metrics;
  std::vector<std::string> seen;
  const auto look = [&](const HttpRequest& request) {
    seen.push_back(metrics.exposition({}).find("espalier_requests_in_progress 1\n") !=
                           std::string::npos
                       ? request.path + " in progress"
                       : request.path);
    return HttpResponse{};
  };
  const auto fail = [](const HttpRequest&) -> HttpResponse { throw std::runtime_error("no"); };
  const auto routes = metrics.watch_routes(
      {{"POST", "/embed", look}, {"GET", "/readyz", look}, {"POST", "/fails", fail}});
  HttpRequest request;
  for (const auto& route : routes) {
    request.path = route.path;
    if (route.path == "/fails") {
      EXPECT_THROW(route.handler(request), std::runtime_error);
    } else {
      route.handler(request);
    }
  }
  EXPECT_THAT(seen, testing::ElementsAre("/embed in progress", "/readyz"));
  const auto text = metrics.exposition({});
  EXPECT_THAT(text, HasSubstr("espalier_requests_in_progress 0\n"));
  EXPECT_THAT(text, HasSubstr("espalier_requests_total{route=\"/fails\",status=\"200\"} 0\n"));
}

TEST(Metrics, TheProcessShowsItself) {
  // The kernel counts CPU time in hundredths of a second.
  while (std::clock() < CLOCKS_PER_SEC / 20) continue;
  const auto text = Metrics().exposition({});
  for (const char* name :
       {"process_cpu_seconds_total", "process_resident_memory_bytes",
        "process_virtual_memory_bytes", "process_open_fds", "process_max_fds", "process_threads",
        "process_start_time_seconds", "espalier_memory_limit_bytes"}) {
    EXPECT_THAT(text, HasSubstr(std::string("\n# TYPE ") + name));
    EXPECT_THAT(text, Not(HasSubstr(std::string("\n") + name + " 0\n"))) << name;
  }
}

TEST(Metrics, SeveralModelsAreToldApart) {
  Metrics metrics;
  metrics.announce_models({{"a", "f32", "trie", "0"}, {"b", "int8", "trie", "0"}});
  const engine::BatchPlan plan;
  scheduler::BatchReport report;
  report.plan = &plan;
  report.model = 1;
  report.full_rows = 10;
  report.compact_rows = 7;
  report.sequences = 2;
  metrics.on_batch(report);
  metrics.on_stages(1, {.queue_seconds = 0.2});
  const auto text = metrics.exposition({{1, 5}, {2, 9}});
  for (const char* line :
       {"espalier_tokens_total{model=\"a\"} 0\n", "espalier_tokens_total{model=\"b\"} 10\n",
        "espalier_queue_tickets{model=\"a\"} 1\n", "espalier_queue_tokens{model=\"b\"} 9\n",
        "espalier_queue_duration_seconds_count{model=\"a\"} 0\n",
        "espalier_queue_duration_seconds_count{model=\"b\"} 1\n",
        "espalier_batch_closed_total{model=\"b\",reason=\"queue_empty\"} 1\n",
        "espalier_worker_idle_duration_seconds_count 1\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("\nespalier_tokens_total ")));  // without a label
  EXPECT_EQ(metrics.totals().tokens, 10U);
  EXPECT_EQ(metrics.totals(0).tokens, 0U);
  EXPECT_EQ(metrics.totals(1).rows_saved, 3U);
  EXPECT_EQ(metrics.totals(1).requests, 1U);
}

TEST(Metrics, OneModelHasNoLabel) {
  Metrics metrics;
  metrics.announce_models({{"a", "f32", "trie", "0"}});
  const auto text = metrics.exposition({{3, 5}});
  EXPECT_THAT(text, HasSubstr("espalier_tokens_total 0\n"));
  EXPECT_THAT(text, HasSubstr("espalier_queue_tickets 3\n"));
  EXPECT_THAT(text, HasSubstr("espalier_model_info{"));
}

}  // namespace
}  // namespace espalier::server
