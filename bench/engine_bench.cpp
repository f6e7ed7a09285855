// Speed of the engine's kernels on Qwen3-0.6B's shapes. Every benchmark checks its answer against
// the naive twin before it times anything. ESPALIER_BENCH_THREADS sets the threads (default: all
// usable CPUs).
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "engine/cpu_features.h"
#include "engine/gemm.h"
#include "engine/row_kernels.h"
#include "engine/sgemm.h"
#include "engine/thread_pool.h"
#include "engine/trie_attention.h"
#include "tests/reference/attention.h"
#include "tests/reference/swiglu.h"

namespace {

using namespace espalier::engine;
namespace reference = espalier::reference;

std::vector<float> random_floats(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  for (float& value : out) value = normal(random);
  return out;
}

size_t bench_threads() {
  const char* const text = std::getenv("ESPALIER_BENCH_THREADS");
  const long threads = text != nullptr ? std::strtol(text, nullptr, 10) : 0;
  return threads > 0 ? static_cast<size_t>(threads) : usable_cpus();
}

/// False, and the benchmark is skipped with an error, unless the values are close.
bool check_close(benchmark::State& state, double value, double expected, double tolerance) {
  if (std::abs(value - expected) <= tolerance) return true;
  state.SkipWithError(
      ("wrong answer: " + std::to_string(value) + ", expected " + std::to_string(expected))
          .c_str());
  return false;
}

/// y = x · wᵀ for rows × inputs and outputs × inputs.
void bm_gemm(benchmark::State& state) {
  const auto rows = static_cast<size_t>(state.range(0));
  const auto outputs = static_cast<size_t>(state.range(1));
  const auto inputs = static_cast<size_t>(state.range(2));
  const std::vector<float> x = random_floats(rows * inputs, 1);
  const std::vector<float> weights = random_floats(outputs * inputs, 2);
  std::vector<float> y(rows * outputs);
  const TensorView tensor{DataType::kF32, {outputs, inputs}, std::as_bytes(std::span(weights))};
  const auto backend = make_openblas_gemm();
  const auto packed = backend->pack(std::span(&tensor, 1));
  ThreadPool pool(bench_threads());
  const auto run = [&] {
    backend->multiply(pool, {x.data(), rows, inputs}, *packed, {y.data(), rows, outputs});
  };
  run();
  // Spread over all blocks; the whole product would take the twin minutes.
  for (size_t i = 0; i < 64; ++i) {
    const size_t at = i * (rows * outputs - 1) / 63;
    double expected = 0;
    for (size_t k = 0; k < inputs; ++k) {
      expected += double{x[at / outputs * inputs + k]} * weights[at % outputs * inputs + k];
    }
    if (!check_close(state, y[at], expected, 1e-3)) return;
  }
  for (auto _ : state) run();
  state.counters["GFLOP/s"] =
      benchmark::Counter(2e-9 * static_cast<double>(rows * outputs * inputs),
                         benchmark::Counter::kIsIterationInvariantRate);
}
// Fused QKV, O, fused gate-up, down.
BENCHMARK(bm_gemm)
    ->ArgNames({"rows", "outputs", "inputs"})
    ->ArgsProduct({{1, 32, 512, 2560}, {4096}, {1024}})
    ->ArgsProduct({{512}, {1024}, {2048}})
    ->ArgsProduct({{1, 32, 512, 2560}, {6144}, {1024}})
    ->ArgsProduct({{512}, {1024}, {3072}})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

/// `prefix` rows that `suffixes` texts share, with `length` rows each of their own.
struct Star {
  std::vector<TrieNode> nodes;
  std::vector<uint32_t> node_of_row;

  Star(uint32_t prefix, uint32_t suffixes, uint32_t length) {
    const uint32_t rows = prefix + suffixes * length;
    if (prefix > 0) {
      nodes.push_back({.begin = 0, .end = prefix, .subtree_end = rows});
      node_of_row.assign(prefix, 0);
    }
    for (uint32_t i = 0; i < suffixes; ++i) {
      const uint32_t begin = prefix + i * length;
      nodes.push_back({.begin = begin,
                       .end = begin + length,
                       .subtree_end = begin + length,
                       .parent = prefix > 0 ? 0 : kNoParent,
                       .position = prefix});
      node_of_row.insert(node_of_row.end(), length, static_cast<uint32_t>(nodes.size() - 1));
    }
  }
};

/// Attention of all rows of a star-shaped batch, heads of Qwen3-0.6B.
void bm_trie_attention(benchmark::State& state) {
  const Star star(static_cast<uint32_t>(state.range(0)), static_cast<uint32_t>(state.range(1)),
                  static_cast<uint32_t>(state.range(2)));
  const AttentionShape shape{.query_heads = 16, .kv_heads = 8, .head_dim = 128};
  const TrieView trie{star.nodes, star.node_of_row};
  const size_t rows = star.node_of_row.size();
  const size_t width = shape.query_heads * shape.head_dim;
  const size_t kv_width = shape.kv_heads * shape.head_dim;
  // Rows as a fused QKV product leaves them.
  const std::vector<float> qkv = random_floats(rows * (width + 2 * kv_width), 3);
  const size_t stride = width + 2 * kv_width;
  const KvSpan kv{qkv.data() + width, qkv.data() + width + kv_width, stride};
  std::vector<float> out(rows * width);
  std::vector<uint32_t> query_rows(rows);
  for (uint32_t i = 0; i < rows; ++i) query_rows[i] = i;
  ThreadPool pool(bench_threads());
  const auto run = [&] {
    trie_attention(pool, shape, trie, query_rows, {qkv.data(), rows, width, stride}, kv,
                   {out.data(), rows, width});
  };
  run();
  for (size_t i = 0; i < 16; ++i) {
    const size_t row = i * (rows - 1) / 15;
    const size_t head = i % shape.query_heads;
    const std::span<const float> query(qkv.data() + row * stride + head * shape.head_dim,
                                       shape.head_dim);
    const std::vector<uint32_t> visible = reference::visible_rows(trie, static_cast<uint32_t>(row));
    const double expected = reference::attend(query, kv, head / 2, visible)[0];
    if (!check_close(state, out[row * width + head * shape.head_dim], expected, 1e-5)) return;
  }
  double pairs = 0;  // of a query and a key that it sees
  for (const TrieNode& node : star.nodes) {
    const double length = node.end - node.begin;
    pairs += length * node.position + length * (length + 1) / 2;
  }
  for (auto _ : state) run();
  using benchmark::Counter;
  state.counters["rows/s"] = Counter(static_cast<double>(rows), Counter::kIsIterationInvariantRate);
  state.counters["GFLOP/s"] =
      Counter(4e-9 * pairs * static_cast<double>(width), Counter::kIsIterationInvariantRate);
}
BENCHMARK(bm_trie_attention)
    ->ArgNames({"prefix", "texts", "suffix"})
    ->Args({0, 1, 512})
    ->Args({0, 1, 4096})
    ->Args({0, 8, 512})
    ->Args({512, 32, 64})
    ->Args({512, 32, 256})
    ->Args({2048, 32, 32})
    ->Args({0, 4096, 1})
    ->Args({64, 1024, 4})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

void bm_swiglu(benchmark::State& state) {
  constexpr size_t kWidth = 3072;
  const std::vector<float> gate_up = random_floats(2 * kWidth, 4);
  std::vector<float> out(kWidth);
  swiglu(gate_up, out);
  const std::vector<float> expected = reference::swiglu(gate_up);
  for (size_t i = 0; i < kWidth; ++i) {
    if (!check_close(state, out[i], expected[i], 1e-6 * std::abs(expected[i]) + 1e-9)) return;
  }
  for (auto _ : state) {
    swiglu(gate_up, out);
    benchmark::DoNotOptimize(out.data());
  }
  state.counters["elements/s"] =
      benchmark::Counter(kWidth, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(bm_swiglu);

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::AddCustomContext("openblas_kernels", openblas_kernel_set());
  benchmark::AddCustomContext("isa", isa_description());
  benchmark::AddCustomContext("threads", std::to_string(bench_threads()));
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
