// Recorded batches as a trace that ui.perfetto.dev and chrome://tracing open (the Trace Event
// Format's JSON object).
//
// Thread contract: functions without state.
#pragma once

#include <span>
#include <string>

#include "server/debug/batch_recorder.h"

namespace espalier::server {

/// {"traceEvents":[…]}: lanes "planner", "worker" and "interludes"; microseconds since `start`.
/// Where there are several models, batches name theirs: `models` by index.
std::string timeline_json(std::span<const RecordedBatch> batches,
                          scheduler::Clock::time_point start,
                          std::span<const std::string> models = {});

}  // namespace espalier::server
