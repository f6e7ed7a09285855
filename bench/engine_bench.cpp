// Speed of the engine's kernels on Qwen3-0.6B's shapes. Every benchmark checks its answer against
// the naive twin before it times anything. ESPALIER_BENCH_THREADS sets the threads (default: all
// usable CPUs).
#include <benchmark/benchmark.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/activations.h"
#include "engine/aligned_buffer.h"
#include "engine/cpu_features.h"
#include "engine/gemm.h"
#include "engine/row_kernels.h"
#include "engine/sgemm.h"
#include "engine/thread_pool.h"
#include "engine/trie_attention.h"
#include "tests/reference/attention.h"
#include "tests/reference/gate.h"

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

struct GemmChoice {
  const char* name;
  std::unique_ptr<GemmBackend> (*make)(NumberFormat);
  NumberFormat format;
};

constexpr GemmChoice kGemms[] = {
    {"openblas_f32", [](NumberFormat) { return make_openblas_gemm(); }, NumberFormat::kF32},
    {"native_f32", [](NumberFormat format) { return make_native_gemm(format, usable_isa()); },
     NumberFormat::kF32},
    {"native_bf16", [](NumberFormat format) { return make_native_gemm(format, usable_isa()); },
     NumberFormat::kBf16},
    {"native_int8", [](NumberFormat format) { return make_native_gemm(format, usable_isa()); },
     NumberFormat::kInt8},
    {"onednn_f32", [](NumberFormat format) { return make_onednn_gemm(format, usable_isa()); },
     NumberFormat::kF32},
    {"onednn_bf16", [](NumberFormat format) { return make_onednn_gemm(format, usable_isa()); },
     NumberFormat::kBf16},
    {"onednn_int8", [](NumberFormat format) { return make_onednn_gemm(format, usable_isa()); },
     NumberFormat::kInt8},
};

/// What rounding the operands to `format` may do to one product of `inputs` terms around 1.
double rounding_of(NumberFormat format, size_t inputs) {
  const double per_term[] = {1e-5, 0.02, 0.1};
  return per_term[static_cast<size_t>(format)] * std::sqrt(static_cast<double>(inputs));
}

/// y = x · wᵀ for rows × inputs and outputs × inputs.
void bm_gemm(benchmark::State& state, const GemmChoice& choice) {
  const auto rows = static_cast<size_t>(state.range(0));
  const auto outputs = static_cast<size_t>(state.range(1));
  const auto inputs = static_cast<size_t>(state.range(2));
  const std::vector<float> values = random_floats(rows * inputs, 1);
  const std::vector<float> weights = random_floats(outputs * inputs, 2);
  std::vector<float> y(rows * outputs), scales(rows);
  const size_t stride = activation_stride(choice.format, inputs);
  const AlignedBuffer memory(rows * stride / sizeof(float));
  const Activations x{.format = choice.format,
                      .data = reinterpret_cast<std::byte*>(memory.data()),
                      .rows = rows,
                      .cols = inputs,
                      .stride = stride,
                      .scales = scales.data()};
  for (size_t r = 0; r < rows; ++r) write_row(std::span(values).subspan(r * inputs, inputs), x, r);
  std::unique_ptr<GemmBackend> backend;
  try {
    backend = choice.make(choice.format);
  } catch (const std::runtime_error& error) {
    state.SkipWithError(error.what());
    return;
  }
  const TensorView tensor{DataType::kF32, {outputs, inputs}, std::as_bytes(std::span(weights))};
  ThreadPool pool(bench_threads());
  const auto packed = backend->pack(pool, std::span(&tensor, 1));
  const auto run = [&] {
    backend->multiply(pool, x, *packed, 0, {y.data(), rows, outputs}, Into::kStore);
  };
  run();
  // Spread over all blocks; the whole product would take the twin minutes.
  for (size_t i = 0; i < 64; ++i) {
    const size_t at = i * (rows * outputs - 1) / 63;
    double expected = 0;
    for (size_t k = 0; k < inputs; ++k) {
      expected += double{values[at / outputs * inputs + k]} * weights[at % outputs * inputs + k];
    }
    if (!check_close(state, y[at], expected, rounding_of(choice.format, inputs))) return;
  }
  for (auto _ : state) run();
  state.counters["GFLOP/s"] =
      benchmark::Counter(2e-9 * static_cast<double>(rows * outputs * inputs),
                         benchmark::Counter::kIsIterationInvariantRate);
}

/// Every backend in every format on fused QKV, O, fused gate-up and down.
void register_gemms() {
  for (const GemmChoice& choice : kGemms) {
    const std::string name = std::string("bm_gemm/") + choice.name;
    benchmark::RegisterBenchmark(name.c_str(),
                                 [&choice](benchmark::State& state) { bm_gemm(state, choice); })
        ->ArgNames({"rows", "outputs", "inputs"})
        ->ArgsProduct({{1, 16, 512, 2048}, {4096}, {1024}})
        ->ArgsProduct({{1, 16, 512, 2048}, {1024}, {2048}})
        ->ArgsProduct({{1, 16, 512, 2048}, {6144}, {1024}})
        ->ArgsProduct({{1, 16, 512, 2048}, {1024}, {3072}})
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime();
  }
}

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

/// Queries, keys and values as a fused QKV product leaves them.
std::vector<std::byte> random_activations(NumberFormat format, size_t count) {
  const std::vector<float> values = random_floats(count, 3);
  std::vector<std::byte> out(count * bytes_of(format));
  for (size_t i = 0; i < count; ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, &values[i], sizeof(bits));
    const auto upper = static_cast<uint16_t>(bits >> 16);
    if (format == NumberFormat::kF32) {
      std::memcpy(&out[4 * i], &bits, sizeof(bits));
    } else {
      std::memcpy(&out[2 * i], &upper, sizeof(upper));
    }
  }
  return out;
}

/// Attention of all rows of a star-shaped batch, heads of Qwen3-0.6B. "bf16": 0 or 1.
void bm_trie_attention(benchmark::State& state) {
  const auto format = state.range(0) != 0 ? NumberFormat::kBf16 : NumberFormat::kF32;
  const Star star(static_cast<uint32_t>(state.range(1)), static_cast<uint32_t>(state.range(2)),
                  static_cast<uint32_t>(state.range(3)));
  const AttentionShape shape{.query_heads = 16, .kv_heads = 8, .head_dim = 128};
  const TrieView trie{star.nodes, star.node_of_row};
  const size_t rows = star.node_of_row.size();
  const size_t width = shape.query_heads * shape.head_dim;
  const size_t kv_width = shape.kv_heads * shape.head_dim;
  const size_t size = bytes_of(format);
  const size_t stride = (width + 2 * kv_width) * size;
  const std::vector<std::byte> qkv = random_activations(format, rows * stride / size);
  const ConstActivations queries{format, qkv.data(), rows, width, stride};
  const KvSpan kv{format, qkv.data() + width * size, qkv.data() + (width + kv_width) * size,
                  stride};
  std::vector<std::byte> out(rows * width * size);
  std::vector<uint32_t> query_rows(rows);
  for (uint32_t i = 0; i < rows; ++i) query_rows[i] = i;
  ThreadPool pool(bench_threads());
  AttentionScratch scratch;
  const auto run = [&] {
    trie_attention(pool, shape, trie, query_rows, queries, kv,
                   {format, out.data(), rows, width, width * size}, scratch);
  };
  run();
  const double tolerance = format == NumberFormat::kF32 ? 1e-5 : 0.02;
  for (size_t i = 0; i < 16; ++i) {
    const size_t row = i * (rows - 1) / 15;
    const size_t head = i % shape.query_heads;
    const size_t column = head * shape.head_dim;
    const std::vector<uint32_t> visible = reference::visible_rows(trie, static_cast<uint32_t>(row));
    const double expected = reference::attend(queries.row(row) + column * size, shape.head_dim, kv,
                                              head / 2, visible)[0];
    const double value = reference::element(format, &out[row * width * size], column);
    if (!check_close(state, value, expected, tolerance)) return;
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

void attention_shapes(benchmark::internal::Benchmark* benchmark) {
  for (const int64_t bf16 : {0, 1}) {
    for (const auto& [prefix, texts, suffix] :
         std::initializer_list<std::array<int64_t, 3>>{{0, 1, 512},
                                                       {0, 1, 4096},
                                                       {0, 8, 512},
                                                       {512, 32, 64},
                                                       {512, 32, 256},
                                                       {2048, 32, 32},
                                                       {0, 4096, 1},
                                                       {64, 1024, 4}}) {
      benchmark->Args({bf16, prefix, texts, suffix});
    }
  }
}
BENCHMARK(bm_trie_attention)
    ->ArgNames({"bf16", "prefix", "texts", "suffix"})
    ->Apply(attention_shapes)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

void bm_gate(benchmark::State& state) {
  constexpr size_t kWidth = 3072;
  const auto activation = static_cast<ActivationFunction>(state.range(0));
  state.SetLabel(std::string(name_of(activation)));
  const std::vector<float> gate_up = random_floats(2 * kWidth, 4);
  std::vector<float> out(kWidth);
  gate(activation, gate_up, out);
  const std::vector<float> expected = reference::gate(activation, gate_up);
  for (size_t i = 0; i < kWidth; ++i) {
    if (!check_close(state, out[i], expected[i], 1e-6 * std::abs(expected[i]) + 1e-6)) return;
  }
  for (auto _ : state) {
    gate(activation, gate_up, out);
    benchmark::DoNotOptimize(out.data());
  }
  state.counters["elements/s"] =
      benchmark::Counter(kWidth, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(bm_gate)->ArgName("activation")->DenseRange(0, 2);

}  // namespace

int main(int argc, char** argv) {
  register_gemms();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::AddCustomContext("openblas_kernels", openblas_kernel_set());
  benchmark::AddCustomContext("isa", isa_description());
  benchmark::AddCustomContext("threads", std::to_string(bench_threads()));
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
