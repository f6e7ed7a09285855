#include "server/commands/memory_check.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "server/commands/gemm_choice.h"
#include "server/commands/progress_line.h"

namespace espalier::commands {
namespace {

/// Smaller batches compute too slowly to be good advice.
constexpr size_t kBatchTokensMin = 64;

bool fits(const MemoryPrediction& prediction, const MemoryLimit& limit) {
  return prediction.resident() + kRequestBytesMin <= limit.bytes &&
         prediction.address_space() <= limit.address_space;
}

/// The options with smaller batches, which no longer input may exceed.
Options with_batch_tokens(Options options, size_t tokens) {
  options.max_batch_tokens = tokens;
  options.max_workspace_mb = 0;
  options.max_input_tokens =
      options.max_input_tokens == 0 ? tokens : std::min(options.max_input_tokens, tokens);
  return options;
}

/// The prediction for `options`; absent where they cannot be had.
std::optional<MemoryPrediction> try_predict(const std::vector<PlannedModel>& models,
                                            const Options& options,
                                            const engine::GemmBackend& gemm) {
  try {
    return predict_memory(models, options, gemm);
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

/// The largest --max-batch-tokens, a power of two, with which the models fit; 0: none.
size_t batch_tokens_that_fit(const std::vector<PlannedModel>& models, const Options& options,
                             const engine::GemmBackend& gemm, const MemoryLimit& limit) {
  size_t tokens = kBatchTokensMin;
  while (tokens * 2 < options.max_batch_tokens) tokens *= 2;
  for (; tokens >= kBatchTokensMin; tokens /= 2) {
    const auto smaller = try_predict(models, with_batch_tokens(options, tokens), gemm);
    if (smaller && fits(*smaller, limit)) return tokens;
  }
  return 0;
}

std::string batch_advice(size_t tokens) {
  return fmt::format("--max-batch-tokens {0} --max-input-tokens {0}", tokens);
}

/// What other formats and smaller batches would need.
std::vector<std::string> advice(const std::vector<PlannedModel>& models, const Options& options,
                                const engine::GemmBackend& gemm, const MemoryLimit& limit) {
  std::vector<std::string> lines;
  if (const size_t tokens = batch_tokens_that_fit(models, options, gemm, limit)) {
    lines.push_back(batch_advice(tokens) + " would fit");
  }
  for (const auto format : {engine::NumberFormat::kBf16, engine::NumberFormat::kInt8}) {
    std::shared_ptr<const engine::GemmBackend> other;
    try {
      other = choose_gemm(options.gemm, format);
    } catch (const std::runtime_error&) {
      continue;  // not on this CPU, or not in this backend
    }
    const auto smaller = try_predict(models, options, *other);
    if (!smaller || smaller->models.front().packed_weights >=
                        predict_memory(models, options, gemm).models.front().packed_weights) {
      continue;
    }
    const std::string option = fmt::format("--dtype {}", name_of(format));
    if (fits(*smaller, limit)) {
      lines.push_back(
          fmt::format("{} would need {} and fit", option, byte_text(smaller->resident())));
    } else if (const size_t tokens = batch_tokens_that_fit(models, options, *other, limit)) {
      lines.push_back(fmt::format("{} with {} would fit", option, batch_advice(tokens)));
    } else {
      lines.push_back(
          fmt::format("{} would need {}, too much still", option, byte_text(smaller->resident())));
    }
  }
  return lines;
}

}  // namespace

std::string why_it_does_not_fit(const std::vector<PlannedModel>& models, const Options& options,
                                const engine::GemmBackend& gemm, const MemoryLimit& limit) {
  const MemoryPrediction needed = predict_memory(models, options, gemm);
  if (fits(needed, limit)) return "";
  std::string why = "the memory that will be needed, " + parts_text(needed);
  if (needed.resident() + kRequestBytesMin > limit.bytes) {
    why += fmt::format(", and {} for requests, is more than {}, {}", byte_text(kRequestBytesMin),
                       limit.source, byte_text(limit.bytes));
  } else {
    why += fmt::format(
        ", with {} of address space for it, mapped files and threads, is more than the {} that "
        "RLIMIT_AS (ulimit -v) leaves",
        byte_text(needed.address_space()), byte_text(limit.address_space));
  }
  if (models.size() > 1) {
    why += "; of that";
    for (const ModelMemory& model : needed.models) {
      why += fmt::format("{} {} {}", &model == needed.models.data() ? "" : ",", model.name,
                         byte_text(model.resident()));
    }
    why += ": fewer models need less";
  }
  for (const std::string& line : advice(models, options, gemm, limit)) why += "; " + line;
  return why + "; --memory-check off starts anyway";
}

RequestBudget check_memory(const std::vector<ModelFiles>& files, const Options& options,
                           const engine::GemmBackend& gemm) {
  const std::vector<PlannedModel> models = plan_models(files);
  const MemoryLimit limit = memory_limit();
  const MemoryPrediction needed = predict_memory(models, options, gemm);
  const RequestBudget budget = request_budget(limit, needed.resident(), options.max_body_mb << 20U);
  if (options.memory_check == "off") return budget;
  spdlog::info("memory: predicted {}{}", parts_text(needed),
               limit.bytes == UINT64_MAX
                   ? ""
                   : fmt::format("; {} is {}", limit.source, byte_text(limit.bytes)));
  const std::string why = why_it_does_not_fit(models, options, gemm, limit);
  if (why.empty()) return budget;
  if (options.memory_check == "on") throw std::runtime_error(why);
  spdlog::warn("{}", why);
  return budget;
}

void log_memory_in_use() {
  spdlog::info("memory: {} in use; batches and requests take theirs when they come",
               byte_text(anonymous_bytes_in_use()));
}

}  // namespace espalier::commands
