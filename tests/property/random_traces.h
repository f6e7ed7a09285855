// Small random traces for the properties of the scheduler: any kind of clients, weights, tenants,
// limits, costs and loads, from half idle to several times too much.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bench/scheduler_sim/random_stream.h"
#include "bench/scheduler_sim/simulation.h"
#include "bench/scheduler_sim/trace.h"

namespace espalier::sim::testing {

struct RandomRun {
  Trace trace;
  SimulationSettings settings;
};

inline ClientSpec random_client(RandomStream& random, size_t number) {
  static const char* const kKinds[] = {"rerank", "embed", "groups", "plain"};
  ClientSpec spec = parse_client_spec(kKinds[random.below(4)]);
  spec.name += std::to_string(number);
  const double weights[] = {0.5, 1, 2, 4};
  spec.weight = weights[random.below(4)];
  spec.tenant = random.below(2);
  spec.texts = random.chance(0.5) ? 1 : random.between(1, 8);
  spec.prefix = random.chance(0.3) ? 0 : random.between(1, 120);
  spec.groups = random.between(1, 4);
  spec.query = random.chance(0.5) ? 0 : random.between(1, 10);
  spec.own = random.between(1, random.chance(0.2) ? 300 : 40);
  spec.repeats = random.chance(0.5) ? 0.3 : 0;
  spec.load = random.uniform(0.5, 8);
  const double kind = random.unit();
  spec.arrivals = kind < 0.5   ? Arrivals::kPoisson
                  : kind < 0.8 ? Arrivals::kBursty
                               : Arrivals::kClosed;
  spec.burst = static_cast<double>(random.between(2, 20));
  spec.outstanding = random.between(1, 12);
  spec.think = random.chance(0.5) ? 0 : random.uniform(0, 1);
  return spec;
}

inline RandomRun random_run(uint64_t seed) {
  RandomStream random(seed);
  std::vector<ClientSpec> specs;
  const size_t clients = random.between(1, 6);
  double load = 0;    // requests …
  double tokens = 0;  // … and tokens a second
  for (size_t c = 0; c < clients; ++c) {
    ClientSpec spec = random_client(random, c);
    const bool closed = spec.arrivals == Arrivals::kClosed;
    const double requests = closed ? 4 : spec.load;
    load += requests;
    tokens += requests * static_cast<double>(spec.texts * (spec.prefix + spec.query + spec.own));
    specs.push_back(spec);
  }
  const double seconds = static_cast<double>(random.between(20, 200)) / load;
  if (random.chance(0.4)) {
    ClientSpec& spec = specs[random.below(clients)];
    spec.deadline = random.uniform(0.05, 0.5) * seconds;
  }
  if (random.chance(0.4)) {
    ClientSpec& spec = specs[random.below(clients)];
    spec.cancel = random.uniform(0, 1);
    spec.patience = random.uniform(0.01, 0.3) * seconds;
  }

  RandomRun run;
  ServerSettings& server = run.settings.server;
  scheduler::SchedulerLimits& limits = server.limits;
  limits.batch_rows_max = random.between(8, 512);
  limits.batch_full_rows_max = limits.batch_rows_max * random.between(1, 16);
  limits.batch_sequences_max = random.chance(0.7) ? 4096 : random.between(1, 40);
  limits.batch_seconds_max = random.chance(0.5) ? 1 : random.uniform(0.02, 1);
  if (random.chance(0.2)) {
    limits.queue_tokens_max = random.between(500, 5000);
    for (ClientSpec& spec : specs) spec.think = std::max(spec.think, 0.03 * seconds);
  }
  const double row = random.uniform(0.3, 4) / tokens;  // from a light load to a heavy one
  server.truth.fixed = random.chance(0.3) ? 0 : random.uniform(0, 20) * row;
  server.truth.row = row;
  server.truth.pair = random.uniform(0, 0.01) * row;
  server.truth.wanted = random.uniform(0, 1) * row;
  server.costs = {random.uniform(0, 0.01), random.uniform(0, 1)};
  server.lead = random.uniform(0, 0.05);
  server.seed = seed;
  run.trace = make_trace(std::move(specs), seconds, seed);
  // Closed loops over little work go round very often; what is sent first is enough.
  if (run.trace.arrivals.size() > 300) run.trace.arrivals.resize(300);
  return run;
}

/// Light clients that ask again at once, faster than their shares, so that their turns run ahead of
/// everybody's; bulk jobs whose texts often do not fit beside theirs; and bursts now and then.
inline RandomRun light_clients_ahead(uint64_t seed) {
  RandomStream random(seed ^ 0x6C69676874U);
  RandomRun run;
  ServerSettings& server = run.settings.server;
  const size_t rows = random.between(16, 64);
  server.limits.batch_rows_max = rows;
  if (random.chance(0.5)) server.limits.batch_sequences_max = random.between(2, 12);
  server.limits.batch_seconds_max = 1e6;
  server.costs = {random.uniform(0, 0.01), random.uniform(0, 0.2)};
  const double row = 1e-3;
  server.truth = {random.uniform(0, 5) * row, row, server.costs.pair * row,
                  server.costs.wanted * row};
  server.lead = random.uniform(0, 0.02);

  std::vector<ClientSpec> specs;
  const auto client = [&](const char* name, double weight, size_t own) -> ClientSpec& {
    ClientSpec spec = parse_client_spec("plain");
    spec.name = name;
    spec.weight = weight;
    spec.own = own;
    specs.push_back(spec);
    return specs.back();
  };
  for (size_t lights = random.between(2, 8); lights > 0; --lights) {
    ClientSpec& light = client("light", 1, std::max<size_t>(1, rows / 12));
    light.arrivals = Arrivals::kClosed;
  }
  for (size_t bulks = random.between(1, 3); bulks > 0; --bulks) {
    const double weight = std::exp(random.uniform(0.7, 7));
    ClientSpec& bulk = client("bulk", weight, random.between(rows / 6, rows));
    bulk.arrivals = Arrivals::kClosed;
    bulk.outstanding = random.between(2, 200);
    if (random.chance(0.5)) bulk.prefix = random.between(1, rows);
  }
  ClientSpec& burst =
      client("burst", std::exp(random.uniform(0.7, 7)), random.between(1, rows / 2));
  burst.arrivals = Arrivals::kBursty;
  burst.burst = static_cast<double>(random.between(2, 40));
  burst.load = burst.burst * random.uniform(0.2, 1);
  run.trace = make_trace(std::move(specs), 5 + 5 * random.unit(), seed);
  return run;
}

}  // namespace espalier::sim::testing
