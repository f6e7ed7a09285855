// An arrival trace: when which client sends what. It holds recipes; the token ids are made when a
// request is sent, so that a trace of millions of requests fits in memory. The same specs and seed
// give the same trace and the same ids.
//
// Thread contract: plain data and functions without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "bench/scheduler_sim/client_spec.h"
#include "scheduler/request.h"

namespace espalier::sim {

inline constexpr double kNever = std::numeric_limits<double>::infinity();

/// One request. Times in seconds from the start of the trace.
struct Arrival {
  double at = 0;
  uint32_t spec = 0;  // index into Trace::specs
  uint64_t client = 0;
  uint64_t tenant = 0;
  uint64_t seed = 0;    // of its texts
  uint64_t query = 0;   // what they have in common behind the prefix; pages of a query share it
  uint64_t prefix = 0;  // what its texts begin with: equal numbers, equal tokens
  uint32_t texts = 1;
  double deadline = kNever;   // seconds after `at`
  double cancelled = kNever;  // seconds after `at`
};

struct Trace {
  std::vector<ClientSpec> specs;
  std::vector<Arrival> arrivals;  // ascending; of closed-loop clients only their first ones
  double seconds = 0;             // nothing is sent at this time or later
};

Trace make_trace(std::vector<ClientSpec> specs, double seconds, uint64_t seed);

/// What a closed-loop client sends after `last`, which ended at `ended`.
Arrival next_of(const Trace& trace, const Arrival& last, double ended);

/// What a proxy sends requests to one replica by: the query, or else the prefix, if they have one.
std::optional<uint64_t> affinity_key(const Trace& trace, const Arrival& arrival);

/// The request with its ids; the deadline is the caller's to set.
scheduler::Submission submission_of(const Trace& trace, const Arrival& arrival);

}  // namespace espalier::sim
