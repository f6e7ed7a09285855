// What the waiting queue costs with many tickets in it: an arrival, a choice of the next batch, its
// dispatch. The answers are checked before they are timed: a chosen batch keeps to its budget, and
// starts with the ticket whose turn it is.

#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "scheduler/batch_policy.h"
#include "scheduler/pending_request.h"
#include "scheduler/ticket_queue.h"

namespace {

using namespace espalier::scheduler;

/// Of Qwen3-Embedding-0.6B: attention and wanted rows, against rows.
constexpr PassCosts kCosts{0.00026, 0.03};

void require(bool holds, const char* what) {
  if (!holds) {
    std::fprintf(stderr, "queue_bench: wrong answer: %s\n", what);
    std::abort();
  }
}

/// How the waiting texts are made.
struct Traffic {
  const char* name;
  size_t groups;   // different prefixes
  size_t shared;   // tokens of each prefix
  size_t own;      // tokens of its own that each text has
  size_t clients;  // that they come from
};

constexpr Traffic kTraffics[] = {
    {"no_sharing", 1, 0, 150, 1},
    {"rerank_64_a_query", 1600, 60, 90, 50},
    {"one_prefix_of_512", 1, 512, 64, 10},
    {"long_texts", 16, 2048, 512, 10},
    {"a_client_each", 100, 60, 90, 100'000},
};

class Texts {
 public:
  explicit Texts(const Traffic& traffic) : traffic_(traffic) {
    for (size_t g = 0; g < traffic.groups; ++g) {
      prefixes_.push_back(tokens(traffic.shared));
    }
  }

  std::shared_ptr<RequestState> request(const std::shared_ptr<TicketQueue>& queue) {
    Submission submission;
    submission.client = random_() % traffic_.clients;
    std::vector<uint32_t> ids = prefixes_[random_() % traffic_.groups];
    const std::vector<uint32_t> own = tokens(traffic_.own / 2 + random_() % traffic_.own);
    ids.insert(ids.end(), own.begin(), own.end());
    submission.sequences.push_back({std::move(ids), WantedRows::kLast});
    return std::make_shared<RequestState>(std::move(submission), queue, Clock::now());
  }

 private:
  std::vector<uint32_t> tokens(size_t count) {
    std::vector<uint32_t> ids(count);
    for (uint32_t& id : ids) id = static_cast<uint32_t>(random_() % 151'643);
    return ids;
  }

  const Traffic& traffic_;
  std::mt19937 random_{1};
  std::vector<std::vector<uint32_t>> prefixes_;
};

class Fixture {
 public:
  Fixture(const Traffic& traffic, size_t tickets)
      : queue(std::make_shared<TicketQueue>(QueueLimits{SIZE_MAX / 2, SIZE_MAX / 2},
                                            turn_rules(limits, 1), std::vector<PassCosts>{kCosts})),
        texts(traffic) {
    for (size_t i = 0; i < tickets; ++i) {
      queue->admit(texts.request(queue));
    }
  }

  void choose() {
    queue->choose(policy_, BatchRules::of(limits), coefficients_, Clock::now(), choice);
  }
  /// Makes ready for the next choice.
  void forget() { builder_.clear(); }
  size_t rows() const { return builder_.rows(); }

  SchedulerLimits limits;
  std::shared_ptr<TicketQueue> queue;
  Texts texts;
  Choice choice;

 private:
  PlanBuilder builder_{espalier::engine::DedupMode::kTrie};
  BatchPolicy policy_{builder_};
  const std::vector<CostCoefficients> coefficients_{1};
};

void arrival(benchmark::State& state, const Traffic& traffic, size_t tickets) {
  Fixture fixture(traffic, tickets);
  std::vector<std::shared_ptr<RequestState>> requests;
  for (auto _ : state) {
    state.PauseTiming();
    std::shared_ptr<RequestState> request = fixture.texts.request(fixture.queue);
    requests.push_back(request);
    state.ResumeTiming();
    fixture.queue->admit(std::move(request));
    if (requests.size() == 1024) {
      state.PauseTiming();
      for (const auto& each : requests) each->fail(shutting_down_failure());
      requests.clear();
      require(fixture.queue->depth().tickets == tickets, "tickets left after requests ended");
      state.ResumeTiming();
    }
  }
}

void batch(benchmark::State& state, const Traffic& traffic, size_t tickets) {
  Fixture fixture(traffic, tickets);
  size_t sequences = 0;
  for (auto _ : state) {
    fixture.choose();
    benchmark::DoNotOptimize(fixture.choice.tickets.data());
    state.PauseTiming();
    sequences = fixture.choice.tickets.size();
    require(sequences > 0 && fixture.rows() <= fixture.limits.batch_rows_max, "rows of the batch");
    require(fixture.choice.closed == BatchClosed::kRows, "reason why the batch closed");
    fixture.forget();
    state.ResumeTiming();
  }
  state.counters["sequences"] = static_cast<double>(sequences);
}

void dispatch(benchmark::State& state, const Traffic& traffic, size_t tickets) {
  Fixture fixture(traffic, tickets);
  for (auto _ : state) {
    state.PauseTiming();
    while (fixture.queue->depth().tickets < tickets) {
      fixture.queue->admit(fixture.texts.request(fixture.queue));
    }
    fixture.choose();
    fixture.forget();
    state.ResumeTiming();
    const bool dispatched = fixture.queue->dispatch(fixture.choice);
    state.PauseTiming();
    require(dispatched, "the tickets still waited");
    for (const Ticket& ticket : fixture.choice.tickets) ticket.request->fail(shutting_down_failure());
    state.ResumeTiming();
  }
}

}  // namespace

int main(int argc, char** argv) {
  constexpr size_t kTickets = 100'000;
  for (const Traffic& traffic : kTraffics) {
    // Long texts: fewer of them, for memory's sake.
    const size_t tickets = traffic.shared + traffic.own > 1000 ? kTickets / 10 : kTickets;
    const auto add = [&](const char* what, auto run) {
      benchmark::RegisterBenchmark(
          (std::string(what) + "/" + traffic.name).c_str(),
          [=, &traffic](benchmark::State& state) { run(state, traffic, tickets); })
          ->Unit(benchmark::kMicrosecond);
    };
    add("arrival", arrival);
    add("choice", batch);
    add("dispatch", dispatch);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
