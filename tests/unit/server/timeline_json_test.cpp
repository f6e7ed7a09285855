#include "server/debug/timeline_json.h"

#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>

namespace espalier::server {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

const scheduler::Clock::time_point kStart{std::chrono::seconds(5000)};

RecordedBatch batch_at(uint64_t number, int from_ms, int to_ms) {
  RecordedBatch batch;
  batch.number = number;
  batch.sequences = 3;
  batch.full_rows = 100;
  batch.compact_rows = 40;
  batch.closed = scheduler::BatchClosed::kRows;
  batch.plan_started = kStart + milliseconds(from_ms - 2);
  batch.plan_ended = kStart + milliseconds(from_ms - 1);
  batch.pass_started = kStart + milliseconds(from_ms);
  batch.pass_ended = kStart + milliseconds(to_ms);
  batch.predicted_seconds = 0.0125;
  return batch;
}

/// Names of the lanes by tid.
std::map<int, std::string> lanes_of(const json& trace) {
  std::map<int, std::string> lanes;
  for (const auto& event : trace["traceEvents"])
    if (event["name"] == "thread_name") lanes[event["tid"]] = event["args"]["name"];
  return lanes;
}

std::vector<json> spans_of(const json& trace, const std::string& lane) {
  std::vector<json> spans;
  auto lanes = lanes_of(trace);
  for (const auto& event : trace["traceEvents"])
    if (event["ph"] == "X" && lanes[event["tid"]] == lane) spans.push_back(event);
  return spans;
}

TEST(TimelineJson, NamesItsLanesEvenWithoutBatches) {
  const auto lanes = lanes_of(json::parse(timeline_json({}, kStart)));
  EXPECT_EQ(lanes, (std::map<int, std::string>{{1, "planner"}, {2, "worker"}, {3, "interludes"}}));
}

TEST(TimelineJson, ShowsPlanAndPassOfABatchInMicroseconds) {
  const std::vector batches{batch_at(7, 10, 35)};
  const json trace = json::parse(timeline_json(batches, kStart));
  const auto passes = spans_of(trace, "worker");
  ASSERT_EQ(passes.size(), 1U);
  EXPECT_EQ(passes[0]["ts"], 10'000);
  EXPECT_EQ(passes[0]["dur"], 25'000);
  const json& args = passes[0]["args"];
  EXPECT_EQ(args["batch"], 7);
  EXPECT_EQ(args["sequences"], 3);
  EXPECT_EQ(args["tokens"], 100);
  EXPECT_EQ(args["compact_rows"], 40);
  EXPECT_EQ(args["closed"], "rows");
  EXPECT_EQ(args["predicted_ms"], 12.5);
  EXPECT_EQ(args["outcome"], "done");
  const auto plans = spans_of(trace, "planner");
  ASSERT_EQ(plans.size(), 1U);
  EXPECT_EQ(plans[0]["ts"], 8'000);
  EXPECT_EQ(plans[0]["dur"], 1'000);
}

TEST(TimelineJson, ShowsInterludesInALaneOfTheirOwn) {
  std::vector batches{batch_at(1, 10, 35), batch_at(2, 20, 25)};
  batches[1].interlude = true;
  const json trace = json::parse(timeline_json(batches, kStart));
  EXPECT_EQ(spans_of(trace, "worker").size(), 1U);
  EXPECT_EQ(spans_of(trace, "planner").size(), 1U);
  EXPECT_EQ(spans_of(trace, "interludes").size(), 2U);  // its plan and its pass
}

TEST(TimelineJson, HasNoNegativeTimesForBatchesThatWereNotTimed) {
  const std::vector<RecordedBatch> batches(1);
  const json trace = json::parse(timeline_json(batches, kStart));
  const auto passes = spans_of(trace, "worker");
  ASSERT_EQ(passes.size(), 1U);
  EXPECT_EQ(passes[0]["ts"], 0);
  EXPECT_EQ(passes[0]["dur"], 0);
  EXPECT_TRUE(spans_of(trace, "planner").empty());
}

}  // namespace
}  // namespace espalier::server
