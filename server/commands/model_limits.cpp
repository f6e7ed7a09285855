#include "server/commands/model_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "models/model.h"
#include "scheduler/scheduler.h"

namespace espalier::commands {
namespace {

/// --max-input-tokens when it is not given: long enough for documents, bounded for everyone's
/// latency.
constexpr size_t kDefaultInputTokensMax = 8192;
/// Batches of fewer rows read the weights for next to nothing.
constexpr size_t kBatchRowsMin = 64;

}  // namespace

size_t input_tokens_max(const Options& options, const models::ModelConfig& config) {
  if (options.max_input_tokens == 0) return std::min(kDefaultInputTokensMax, config.max_positions);
  if (options.max_input_tokens > config.max_positions) {
    throw std::runtime_error(fmt::format(
        "--max-input-tokens {} is more than the model's {} positions (config.json's {})",
        options.max_input_tokens, config.max_positions, models::limit_of_positions(config)));
  }
  return options.max_input_tokens;
}

RowBudget row_budget(const Options& options, const models::ModelConfig& config,
                     const engine::GemmBackend& gemm) {
  RowBudget rows;
  rows.batch = options.max_batch_tokens;
  rows.reserved = std::max(rows.batch, input_tokens_max(options, config));
  // As many rows as an input may always have that runs within a long batch; larger ones allocate.
  rows.interlude = std::min(rows.reserved, scheduler::InterludeLimits().always_short_tokens);
  if (options.max_workspace_mb == 0) return rows;

  const auto fits = [&](size_t batch) {
    return models::estimate_memory(config, gemm, batch, std::min(batch, rows.interlude))
               .workspace <= options.max_workspace_mb << 20U;
  };
  // The largest number of rows that fits, between `batch`, which does, and `beyond`, which does
  // not.
  size_t batch = 0;
  for (size_t beyond = rows.batch + 1; beyond - batch > 1;) {
    const size_t middle = batch + (beyond - batch) / 2;
    (fits(middle) ? batch : beyond) = middle;
  }
  if (batch < std::min(kBatchRowsMin, rows.batch)) {
    throw std::runtime_error(fmt::format(
        "--max-workspace-mb {} is too little: this model's batches would have {} rows, and need {} "
        "or more",
        options.max_workspace_mb, batch, kBatchRowsMin));
  }
  return {batch, batch, std::min(batch, rows.interlude)};
}

}  // namespace espalier::commands
