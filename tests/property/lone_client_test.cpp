// Who asks for little is answered soon, whatever bulk jobs have sent: 99 of 100 of its requests
// within two batch times, the batch that runs and the one that takes the request in. Over hundreds
// of requests that come at any moment of a batch.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "bench/scheduler_sim/report.h"
#include "bench/scheduler_sim/simulation.h"
#include "bench/scheduler_sim/trace.h"

namespace espalier::sim::testing {
namespace {

/// What bulk clients send; all of it but one batch waits at any time.
struct Bulk {
  const char* name;
  const char* spec;
};

constexpr Bulk kBulks[] = {
    {"ShortTexts", "plain,own=30,outstanding=1000"},
    {"Passages", "plain,own=150,outstanding=1000"},
    {"LongTexts", "plain,own=3000,outstanding=100"},
    {"TextsLargerThanABatch", "plain,own=5000,outstanding=100"},
    {"RerankRequests", "rerank,texts=64,outstanding=30"},
    // Fair shares alone would not be soon enough: every one of the clients has an earlier turn.
    {"ManyBulkClients", "plain,own=20,clients=200,outstanding=60"},
    // Batches may stretch to several times batch_seconds_max.
    {"LongPrefixes", "groups,prefix=2000,own=40,groups=4,outstanding=1000"},
    {"OnePrefix", "groups,prefix=1000,own=20,groups=1,outstanding=1000"},
    {"ManyPrefixes", "groups,prefix=500,own=64,groups=50,outstanding=1000"},
};

class LoneClient : public ::testing::TestWithParam<std::tuple<Bulk, size_t>> {
 protected:
  static constexpr double kSeconds = 600;
  static constexpr double kWarm = 20;  // by then the cost model has seen batches

  static Trace trace() {
    const auto& [bulk, lone_clients] = GetParam();
    std::vector<ClientSpec> specs{parse_client_spec(bulk.spec)};
    specs.front().arrivals = Arrivals::kClosed;
    specs.resize(1 + lone_clients, parse_client_spec("embed,load=0.6"));
    return make_trace(specs, kSeconds, 1);
  }
};

TEST_P(LoneClient, IsAnsweredWithinTwoBatchTimes) {
  SimulationSettings settings;
  settings.server.noise = 0.03;
  const RunResult run = simulate(trace(), settings, nullptr);
  double batch_time = settings.server.limits.batch_seconds_max;
  for (const BatchRecord& batch : run.batches) {
    if (batch.started > kWarm) batch_time = std::max(batch_time, batch.ended - batch.started);
  }
  std::vector<double> latencies;
  for (const Record& record : run.requests) {
    if (record.spec == 0 || record.arrived < kWarm) continue;
    ASSERT_EQ(record.outcome, Outcome::kDone);
    latencies.push_back(record.ended - record.arrived);
  }
  EXPECT_GT(latencies.size(), 300U);
  const double in_batch_times = percentiles(latencies).p99 / batch_time;
  RecordProperty("p99_in_batch_times", std::to_string(in_batch_times));
  RecordProperty("batch_time", std::to_string(batch_time));
  EXPECT_LE(in_batch_times, 2);
}

INSTANTIATE_TEST_SUITE_P(Beside, LoneClient,
                         ::testing::Combine(::testing::ValuesIn(kBulks),
                                            ::testing::Values(size_t{1}, size_t{2}, size_t{4})),
                         [](const auto& param) {
                           return std::string(std::get<0>(param.param).name) +
                                  std::to_string(std::get<1>(param.param));
                         });

}  // namespace
}  // namespace espalier::sim::testing
