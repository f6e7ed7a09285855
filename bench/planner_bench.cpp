// How long the planner takes for one batch: prices, trie, plan and maps, on shapes from the
// everyday to the hostile; next to it, a straightforward trie of std::maps. Every shape's answer is
// checked before it is timed: the rows against what the shape is built to have, the maps against
// each other and the map trie's, and that planning it again allocates nothing.

#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "scheduler/plan_builder.h"
#include "tests/reference/map_trie.h"

namespace {

size_t allocations = 0;

}  // namespace

void* operator new(size_t bytes) {
  ++allocations;
  if (void* const memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace {

using espalier::engine::BatchPlan;
using espalier::engine::DedupMode;
using espalier::reference::NaiveSequence;
using espalier::scheduler::PlanBuilder;
using espalier::scheduler::WantedRows;

constexpr uint32_t kVocabulary = 151'643;
constexpr size_t kTokens = 16'384;

/// Sequences, and the compact rows that they must come to.
struct Shape {
  std::vector<std::vector<uint32_t>> sequences;
  size_t rows = 0;
};

/// 32 × 512 tokens, the first `shared` of each 512 the same.
Shape shared_prefix(size_t shared) {
  constexpr size_t kSequences = 32;
  constexpr size_t kLength = kTokens / kSequences;
  std::mt19937 random(1);
  Shape shape;
  std::vector<uint32_t> prefix(shared);
  for (uint32_t& id : prefix) {
    id = static_cast<uint32_t>(random() % kVocabulary);
  }
  for (uint32_t s = 0; s < kSequences; ++s) {
    std::vector<uint32_t> ids = prefix;
    while (ids.size() < kLength) {
      // The first token of its own tells the sequences apart.
      ids.push_back(ids.size() == shared ? s : static_cast<uint32_t>(random() % kVocabulary));
    }
    shape.sequences.push_back(std::move(ids));
  }
  shape.rows = shared + kSequences * (kLength - shared);
  if (shared == kLength) {
    shape.rows = kLength;
  }
  return shape;
}

/// 16 384 different sequences of one token, in random order.
Shape one_token_sequences() {
  Shape shape;
  std::vector<uint32_t> ids(kTokens);
  std::iota(ids.begin(), ids.end(), 0U);
  std::shuffle(ids.begin(), ids.end(), std::mt19937(1));
  for (const uint32_t id : ids) {
    shape.sequences.push_back({id});
  }
  shape.rows = kTokens;
  return shape;
}

/// Each sequence a prefix of the next; `branching`: with a token of its own at the end.
Shape comb(bool branching) {
  Shape shape;
  size_t tokens = 0;
  for (uint32_t length = 1; tokens + length <= kTokens; ++length) {
    std::vector<uint32_t> ids(length, 7);
    if (branching) {
      ids.back() = 8;
    }
    shape.sequences.push_back(std::move(ids));
    tokens += length;
  }
  const size_t teeth = shape.sequences.size();
  shape.rows = branching ? 2 * teeth - 1 : teeth;
  return shape;
}

/// 1 024 sequences of 16 tokens out of two: paths that branch at nearly every token at first.
Shape binary_branching() {
  constexpr uint32_t kSequences = 1024;
  constexpr uint32_t kLength = 16;
  constexpr uint32_t kBranching = 10;  // levels that branch, 2^10 paths
  Shape shape;
  for (uint32_t s = 0; s < kSequences; ++s) {
    std::vector<uint32_t> ids;
    for (uint32_t level = 0; level < kLength; ++level) {
      ids.push_back(level < kBranching ? (s >> level) & 1U : 2U);
    }
    shape.sequences.push_back(std::move(ids));
  }
  shape.rows = (2 * kSequences - 2) + kSequences * (kLength - kBranching);
  return shape;
}

void plan_shape(PlanBuilder& builder, const Shape& shape, BatchPlan& plan) {
  builder.clear();
  for (const std::vector<uint32_t>& ids : shape.sequences) {
    builder.add(0, ids, WantedRows::kLast);
  }
  builder.build(plan);
}

void require(bool holds, const char* what) {
  if (!holds) {
    std::fprintf(stderr, "planner_bench: wrong answer: %s\n", what);
    std::abort();
  }
}

std::vector<NaiveSequence> naive_sequences(const Shape& shape) {
  std::vector<NaiveSequence> sequences;
  for (const std::vector<uint32_t>& ids : shape.sequences) {
    sequences.push_back({0, ids});
  }
  return sequences;
}

void check(const Shape& shape, const BatchPlan& plan, DedupMode dedup) {
  require(plan.compact_rows() == shape.rows, "number of compact rows");
  for (size_t s = 0; s < shape.sequences.size(); ++s) {
    const uint32_t row = plan.ends[s].row;
    require(plan.positions[row] + 1 == shape.sequences[s].size(), "position of an end");
    require(plan.token_ids[row] == shape.sequences[s].back(), "token of an end");
    for (size_t i = 0; dedup == DedupMode::kRadixMlp && i < shape.sequences[s].size(); ++i) {
      const uint32_t full_row_of_plan = plan.scatter[plan.sequence_offsets[s] + i];
      require(plan.token_ids[full_row_of_plan] == shape.sequences[s][i], "scatter");
      require(plan.scatter[plan.gather[full_row_of_plan]] == full_row_of_plan, "gather");
    }
  }
}

void run(benchmark::State& state, const Shape& shape, DedupMode dedup) {
  PlanBuilder builder(dedup);
  BatchPlan plan;
  plan_shape(builder, shape, plan);
  check(shape, plan, dedup);
  size_t new_rows = 0;
  for (size_t s = 0; s < shape.sequences.size(); ++s) new_rows += builder.new_rows_of(s);
  require(new_rows == shape.rows, "rows by sequence");
  const size_t allocations_before = allocations;
  plan_shape(builder, shape, plan);
  require(allocations == allocations_before, "no allocation in steady state");
  const BatchPlan twin = espalier::reference::map_trie_plan(naive_sequences(shape));
  require(plan.token_ids == twin.token_ids && plan.positions == twin.positions, "the twin's rows");
  if (dedup == DedupMode::kRadixMlp) {
    require(plan.scatter == twin.scatter && plan.gather == twin.gather, "the twin's maps");
  }
  for (auto _ : state) {
    plan_shape(builder, shape, plan);
    benchmark::DoNotOptimize(plan.token_ids.data());
  }
  state.counters["rows"] = static_cast<double>(shape.rows);
}

void run_twin(benchmark::State& state, const Shape& shape) {
  const std::vector<NaiveSequence> sequences = naive_sequences(shape);
  for (auto _ : state) {
    benchmark::DoNotOptimize(espalier::reference::map_trie_plan(sequences));
  }
}

/// What an admission to a batch that is nearly full costs on top: a price for every sequence.
void run_prices(benchmark::State& state, const Shape& shape) {
  PlanBuilder builder(DedupMode::kTrie);
  BatchPlan plan;
  plan_shape(builder, shape, plan);
  for (const std::vector<uint32_t>& ids : shape.sequences) {
    if (builder.new_rows(0, ids) != 0) {
      std::fprintf(stderr, "planner_bench: wrong answer: price of a known sequence\n");
      std::abort();
    }
  }
  for (auto _ : state) {
    for (const std::vector<uint32_t>& ids : shape.sequences) {
      benchmark::DoNotOptimize(builder.new_rows(0, ids));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const struct {
    const char* name;
    Shape shape;
  } shapes[] = {
      {"32x512/shared_0", shared_prefix(0)},
      {"32x512/shared_128", shared_prefix(128)},
      {"32x512/shared_256", shared_prefix(256)},
      {"32x512/shared_480", shared_prefix(480)},
      {"32x512/shared_512", shared_prefix(512)},
      {"one_token_x16384", one_token_sequences()},
      {"comb", comb(false)},
      {"comb_branching", comb(true)},
      {"binary_branching", binary_branching()},
  };
  for (const auto& [name, shape] : shapes) {
    for (const auto& [mode_name, dedup] :
         {std::pair{"trie/", DedupMode::kTrie}, std::pair{"radixmlp/", DedupMode::kRadixMlp}}) {
      benchmark::RegisterBenchmark(
          (std::string(mode_name) + name).c_str(),
          [&shape = shape, dedup = dedup](benchmark::State& state) { run(state, shape, dedup); })
          ->Unit(benchmark::kMicrosecond);
    }
    benchmark::RegisterBenchmark(
        (std::string("map_trie/") + name).c_str(),
        [&shape = shape](benchmark::State& state) { run_twin(state, shape); })
        ->Unit(benchmark::kMicrosecond);
    benchmark::RegisterBenchmark(
        (std::string("prices/") + name).c_str(),
        [&shape = shape](benchmark::State& state) { run_prices(state, shape); })
        ->Unit(benchmark::kMicrosecond);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
