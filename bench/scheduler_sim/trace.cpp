#include "bench/scheduler_sim/trace.h"

#include <algorithm>
#include <utility>

#include "bench/scheduler_sim/random_stream.h"

namespace espalier::sim {
namespace {

constexpr uint64_t kVocabulary = 151'643;
/// Texts that are sent again and again.
constexpr uint64_t kRepeatedTexts = 8;
/// Think times after a rejection at least: a client that asks again at once would never stop.
constexpr double kPauseMin = 0.001;

void append_tokens(std::vector<uint32_t>& ids, uint64_t seed, size_t count) {
  RandomStream random(seed);
  for (size_t i = 0; i < count; ++i)
    ids.push_back(static_cast<uint32_t>(random.below(kVocabulary)));
}

/// All but its time.
Arrival drawn(const Trace& trace, uint32_t s, size_t client_of_spec, RandomStream& random) {
  const ClientSpec& spec = trace.specs[s];
  Arrival arrival;
  arrival.spec = s;
  arrival.client = (uint64_t{s} << 32U) | client_of_spec;
  arrival.tenant = spec.own_tenant ? arrival.client + (uint64_t{1} << 48U) : spec.tenant;
  arrival.seed = random.next();
  arrival.query = mixed(arrival.seed);
  arrival.prefix = mixed(mixed(s) + random.below(spec.groups));
  arrival.texts = static_cast<uint32_t>(std::max<size_t>(1, random.around(spec.texts)));
  if (spec.deadline > 0) arrival.deadline = spec.deadline;
  if (random.chance(spec.cancel)) arrival.cancelled = random.exponential(spec.patience);
  return arrival;
}

void add_open_loop(Trace& trace, uint32_t s, RandomStream& random) {
  const ClientSpec& spec = trace.specs[s];
  const double burst = spec.arrivals == Arrivals::kBursty ? spec.burst : 1;
  double at = 0;
  for (;;) {
    at += random.exponential(burst / spec.load);
    if (at >= trace.seconds) return;
    const size_t requests = std::max<size_t>(1, random.around(static_cast<size_t>(burst)));
    const size_t client = random.below(spec.clients);
    for (size_t i = 0; i < requests; ++i) {
      Arrival arrival = drawn(trace, s, client, random);
      arrival.at = at;
      for (size_t page = 0; page < spec.pages; ++page) {
        trace.arrivals.push_back(arrival);
        arrival.seed = random.next();
      }
    }
  }
}

void add_closed_loop(Trace& trace, uint32_t s, RandomStream& random) {
  const ClientSpec& spec = trace.specs[s];
  for (size_t client = 0; client < spec.clients; ++client) {
    for (size_t i = 0; i < spec.outstanding; ++i) {
      trace.arrivals.push_back(drawn(trace, s, client, random));
      trace.arrivals.back().at = random.exponential(spec.think);
    }
  }
}

}  // namespace

Trace make_trace(std::vector<ClientSpec> specs, double seconds, uint64_t seed) {
  Trace trace;
  trace.specs = std::move(specs);
  trace.seconds = seconds;
  for (uint32_t s = 0; s < trace.specs.size(); ++s) {
    RandomStream random(mixed(seed) + s);
    if (trace.specs[s].arrivals == Arrivals::kClosed) {
      add_closed_loop(trace, s, random);
    } else {
      add_open_loop(trace, s, random);
    }
  }
  std::stable_sort(trace.arrivals.begin(), trace.arrivals.end(),
                   [](const Arrival& a, const Arrival& b) { return a.at < b.at; });
  return trace;
}

Arrival next_of(const Trace& trace, const Arrival& last, double ended) {
  RandomStream random(last.seed ^ 0x6E657874U);
  Arrival next = drawn(trace, last.spec, last.client & UINT32_MAX, random);
  const double think = random.exponential(trace.specs[last.spec].think);
  next.at = std::max(ended + think, last.at + kPauseMin);
  return next;
}

std::optional<uint64_t> affinity_key(const Trace& trace, const Arrival& arrival) {
  const ClientSpec& spec = trace.specs[arrival.spec];
  if (spec.query > 0) return mixed(arrival.tenant) ^ arrival.query;
  if (spec.prefix > 0) return mixed(arrival.tenant) ^ arrival.prefix;
  return std::nullopt;
}

scheduler::Submission submission_of(const Trace& trace, const Arrival& arrival) {
  const ClientSpec& spec = trace.specs[arrival.spec];
  RandomStream random(arrival.seed);
  scheduler::Submission submission;
  submission.tenant = arrival.tenant;
  submission.client = arrival.client;
  submission.weight = spec.weight;
  submission.sequences.resize(arrival.texts);

  std::vector<uint32_t> shared;
  append_tokens(shared, arrival.prefix, spec.prefix);
  append_tokens(shared, arrival.query, RandomStream(arrival.query).around(spec.query));
  for (scheduler::Sequence& sequence : submission.sequences) {
    // One text of the few, or one that nobody has sent before.
    const uint64_t text = random.chance(spec.repeats)
                              ? mixed(arrival.prefix ^ random.below(kRepeatedTexts))
                              : random.next();
    sequence.token_ids.reserve(shared.size() + spec.own + spec.own / 2);
    sequence.token_ids = shared;
    append_tokens(sequence.token_ids, text,
                  std::max<size_t>(1, RandomStream(~text).around(spec.own)));
  }
  return submission;
}

}  // namespace espalier::sim
