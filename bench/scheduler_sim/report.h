// What a run amounts to: rates, percentiles, and how they are printed.
//
// Thread contract: functions without state.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench/scheduler_sim/simulation.h"

namespace espalier::sim {

struct Percentiles {
  double p50 = 0, p90 = 0, p99 = 0, max = 0;
};
/// `values` in any order; nearest rank.
Percentiles percentiles(std::vector<double> values);

/// The requests of one spec, or all. Seconds.
struct KindSummary {
  std::string name;
  size_t requests = 0;
  size_t done = 0, rejected = 0, missed = 0, cancelled = 0;
  Percentiles wait;     // of those that were taken: from arrival to the first batch
  Percentiles latency;  // of those that were answered: from arrival to answer
  /// Of all that nobody cancelled; the ones that were rejected or missed their deadlines count as
  /// infinite.
  double p99_of_wanted = 0;
};

struct Summary {
  double seconds = 0;
  double requests_per_second = 0;  // answered
  double tokens_per_second = 0;    // of requests that were answered
  double tokens = 0, rows = 0;     // of all batches
  double compression = 0;          // tokens over rows
  double utilisation = 0;          // share of the replicas' time that passes ran
  size_t batches = 0;
  double batch_seconds = 0;  // mean
  KindSummary all;
  std::vector<KindSummary> kinds;  // by spec
};

Summary summarise(const Trace& trace, const RunResult& run, size_t replicas);

/// One run among those that are printed together.
struct LabelledSummary {
  Policy policy;
  size_t replicas;
  Summary summary;
};

std::string table(const std::vector<LabelledSummary>& runs);
std::string json(const std::vector<LabelledSummary>& runs);

}  // namespace espalier::sim
