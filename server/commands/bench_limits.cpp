#include "server/commands/bench_limits.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "engine/aligned_buffer.h"
#include "engine/cpu_features.h"
#include "engine/gemm_loops.h"
#include "engine/row_kernels.h"

namespace espalier::commands {
namespace {

using engine::NumberFormat;
using Clock = std::chrono::steady_clock;

double seconds_of(const std::function<void()>& work) {
  const Clock::time_point started = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - started).count();
}

double best_seconds(size_t rounds, const std::function<void()>& work) {
  double best = std::numeric_limits<double>::infinity();
  for (size_t round = 0; round < rounds; ++round) best = std::min(best, seconds_of(work));
  return best;
}

std::vector<float> random_floats(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(random);
  return values;
}

/// Seconds of one product.
double product_seconds(const engine::GemmBackend& gemm, engine::ThreadPool& pool, size_t rows,
                       size_t outputs, size_t inputs) {
  const std::vector<float> weights = random_floats(outputs * inputs, 1);
  const engine::TensorView tensor{
      engine::DataType::kF32, {outputs, inputs}, std::as_bytes(std::span(weights))};
  const auto packed = gemm.pack(pool, std::span(&tensor, 1));
  const std::vector<float> values = random_floats(rows * inputs, 2);
  const size_t stride = engine::activation_stride(gemm.format(), inputs);
  const engine::AlignedBuffer memory(rows * stride / sizeof(float));
  std::vector<float> scales(rows);
  const engine::Activations x{gemm.format(), reinterpret_cast<std::byte*>(memory.data()),
                              rows,          inputs,
                              stride,        scales.data()};
  for (size_t r = 0; r < rows; ++r) {
    engine::write_row(std::span(values).subspan(r * inputs, inputs), x, r);
  }
  const engine::AlignedBuffer result(rows * outputs);
  const engine::MutMatView y(result.data(), rows, outputs);
  return best_seconds(5, [&] { gemm.multiply(pool, x, *packed, 0, y, engine::Into::kStore); });
}

/// Runs `work` on every thread of the pool at once and returns the seconds that it took.
double on_all_threads(engine::ThreadPool& pool, const std::function<void()>& work) {
  return best_seconds(3, [&] { pool.parallel_for(pool.size(), [&](size_t, size_t) { work(); }); });
}

}  // namespace

std::string cpu_model_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown";
}

double gemm_rate(const engine::GemmBackend& gemm, engine::ThreadPool& pool,
                 const models::ModelConfig& config) {
  constexpr size_t kRows = 1024;
  const size_t hidden = config.hidden_size;
  const size_t queries = config.query_heads * config.head_dim;
  const size_t keys = config.kv_heads * config.head_dim;
  const struct {
    size_t outputs, inputs;
  } products[] = {{queries + 2 * keys, hidden},
                  {hidden, queries},
                  {2 * config.intermediate_size, hidden},
                  {hidden, config.intermediate_size}};
  double flops = 0, seconds = 0;
  for (const auto& [outputs, inputs] : products) {
    flops += 2.0 * kRows * static_cast<double>(outputs) * static_cast<double>(inputs);
    seconds += product_seconds(gemm, pool, kRows, outputs, inputs);
  }
  return 1e-9 * flops / seconds;
}

double kernel_peak(NumberFormat format, engine::ThreadPool& pool) {
  const engine::GemmLoops& loops = engine::gemm_loops_for(engine::usable_isa());
  const auto [product, rows] = loops.kernel(format);
  constexpr size_t kGroups = 64;  // an 8 KiB panel
  constexpr size_t kProducts = 50000;
  const double seconds = on_all_threads(pool, [&, product = product, rows = rows] {
    const engine::AlignedBuffer x(rows * kGroups), panel(kGroups * engine::kPanelWidth);
    const engine::AlignedBuffer tile(rows * engine::kPanelWidth);
    std::fill_n(x.data(), x.size(), 0.0F);
    std::fill_n(panel.data(), panel.size(), 0.0F);
    loops.begin();
    for (size_t i = 0; i < kProducts; ++i) {
      product(reinterpret_cast<const std::byte*>(x.data()), kGroups * 4, rows,
              reinterpret_cast<const std::byte*>(panel.data()), kGroups, {}, tile.data());
    }
    loops.end();
  });
  const double flops = 2.0 * static_cast<double>(kProducts * rows * engine::kPanelWidth * kGroups *
                                                 engine::inputs_per_group(format));
  return 1e-9 * flops * static_cast<double>(pool.size()) / seconds;
}

std::optional<double> amx_peak(engine::ThreadPool& pool) {
  if (engine::usable_isa() < engine::Isa::kAmx) return std::nullopt;
  constexpr size_t kRounds = 1'000'000;
  const double seconds = on_all_threads(pool, [] { engine::amx_multiply_registers(kRounds); });
  return 1e-9 * engine::kAmxRegisterFlops * kRounds * static_cast<double>(pool.size()) / seconds;
}

double read_bandwidth(engine::ThreadPool& pool) {
  constexpr size_t kBytesPerThread = size_t{256} << 20U;
  constexpr size_t kBytesMax = size_t{4} << 30U;
  constexpr size_t kBytesPerThreadMin = size_t{16} << 20U;
  const size_t bytes =
      std::max(kBytesPerThreadMin, std::min(kBytesPerThread, kBytesMax / pool.size()));
  const size_t count = bytes / sizeof(uint64_t);
  const std::vector<uint64_t> memory(count * pool.size(), 1);
  std::vector<uint64_t> sums(pool.size());
  const double seconds = best_seconds(5, [&] {
    pool.parallel_for(pool.size(), [&](size_t task, size_t) {
      const auto begin = memory.begin() + static_cast<std::ptrdiff_t>(task * count);
      sums[task] = std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(count), uint64_t{0});
    });
  });
  // Read, so that no compiler leaves the loop out.
  if (std::accumulate(sums.begin(), sums.end(), uint64_t{0}) != memory.size()) return 0;
  return 1e-9 * static_cast<double>(memory.size() * sizeof(uint64_t)) / seconds;
}

}  // namespace espalier::commands
