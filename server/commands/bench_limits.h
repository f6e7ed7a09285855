// What the machine could do at best: the limits that `espalier bench` is held against.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engine/gemm.h"
#include "engine/thread_pool.h"
#include "models/model_config.h"

namespace espalier::commands {

/// "Intel(R) Xeon(R) …", from /proc/cpuinfo; "unknown" where it does not say.
std::string cpu_model_name();

/// The rate of `gemm` alone, on random matrices of the model's four products with 1 024 rows, in
/// GFLOP/s (in int8 GOP/s): operations over the sum of each product's best time.
double gemm_rate(const engine::GemmBackend& gemm, engine::ThreadPool& pool,
                 const models::ModelConfig& config);

/// The same kernels on operands that stay in the first-level cache.
double kernel_peak(engine::NumberFormat format, engine::ThreadPool& pool);

/// AMX's bf16 products on tiles that are already loaded; nothing without AMX.
std::optional<double> amx_peak(engine::ThreadPool& pool);

/// GB/s (10^9) of reading memory far larger than the caches, on all threads.
double read_bandwidth(engine::ThreadPool& pool);

}  // namespace espalier::commands
