#include "server/debug/timeline_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "server/observe/batch_closed_name.h"

namespace espalier::server {
namespace {

using nlohmann::ordered_json;
using scheduler::Clock;

constexpr int kProcess = 1;
enum Lane : int { kPlanner = 1, kWorker = 2, kInterludes = 3 };

double milliseconds(double seconds) { return std::round(seconds * 1e6) / 1e3; }

ordered_json named_lane(Lane lane, const char* name) {
  return {{"ph", "M"},
          {"name", "thread_name"},
          {"pid", kProcess},
          {"tid", static_cast<int>(lane)},
          {"args", {{"name", name}}}};
}

/// Keeps the lanes in the order of their numbers.
ordered_json sorted_lane(Lane lane) {
  return {{"ph", "M"},
          {"name", "thread_sort_index"},
          {"pid", kProcess},
          {"tid", static_cast<int>(lane)},
          {"args", {{"sort_index", static_cast<int>(lane)}}}};
}

ordered_json arguments(const RecordedBatch& batch) {
  return {{"batch", batch.number},
          {"sequences", batch.sequences},
          {"tokens", batch.full_rows},
          {"compact_rows", batch.compact_rows},
          {"closed", name_of(batch.closed)},
          {"predicted_ms", milliseconds(batch.predicted_seconds)},
          {"compute_ms", milliseconds(batch.compute_seconds)},
          {"idle_before_ms", milliseconds(batch.idle_seconds)},
          {"refinements", batch.refinements},
          {"outcome", batch.failed      ? "failed"
                      : batch.abandoned ? "abandoned"
                                        : "done"}};
}

/// A span; one that was never begun lies at the start, one without an end has no length.
ordered_json span(Lane lane, const std::string& name, const char* category, Clock::time_point from,
                  Clock::time_point to, Clock::time_point start, ordered_json args) {
  using std::chrono::duration_cast;
  using std::chrono::microseconds;
  const auto at = [&](Clock::time_point time) {
    return duration_cast<microseconds>(std::max(time, start) - start).count();
  };
  return {{"name", name},
          {"cat", category},
          {"ph", "X"},
          {"pid", kProcess},
          {"tid", static_cast<int>(lane)},
          {"ts", at(from)},
          {"dur", std::max<int64_t>(0, at(to) - at(from))},
          {"args", std::move(args)}};
}

}  // namespace

std::string timeline_json(std::span<const RecordedBatch> batches, Clock::time_point start,
                          std::span<const std::string> models) {
  ordered_json events = ordered_json::array();
  events.push_back(
      {{"ph", "M"}, {"name", "process_name"}, {"pid", kProcess}, {"args", {{"name", "espalier"}}}});
  for (const auto& [lane, name] :
       {std::pair(kPlanner, "planner"), {kWorker, "worker"}, {kInterludes, "interludes"}}) {
    events.push_back(named_lane(lane, name));
    events.push_back(sorted_lane(lane));
  }
  for (const RecordedBatch& batch : batches) {
    const std::string number = std::to_string(batch.number);
    // Interludes are planned on the worker's thread, in a pause of another batch.
    if (batch.plan_ended > batch.plan_started) {
      events.push_back(span(batch.interlude ? kInterludes : kPlanner, "plan " + number, "plan",
                            batch.plan_started, batch.plan_ended, start,
                            {{"batch", batch.number}}));
    }
    events.push_back(span(batch.interlude ? kInterludes : kWorker, "batch " + number, "pass",
                          batch.pass_started, batch.pass_ended, start, arguments(batch)));
    if (models.size() > 1) events.back()["args"]["model"] = models[batch.model];
  }
  return ordered_json({{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}})
      .dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace espalier::server
