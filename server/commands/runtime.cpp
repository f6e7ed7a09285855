#include "server/commands/runtime.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/commands/gemm_choice.h"
#include "server/commands/memory_check.h"
#include "server/commands/model_files.h"
#include "server/commands/warm_up.h"

namespace espalier::commands {
namespace {

/// Full rows of a batch cost no computing, but memory for their ids and maps.
constexpr size_t kFullRowsPerCompactRow = 16;
/// CPUs for each tokenizing thread: a tokenizer is far faster than a model.
constexpr size_t kCpusPerTokenizerThread = 4;

size_t count_tokenizer_threads(const Options& options) {
  if (options.tokenizer_threads > 0) return options.tokenizer_threads;
  return std::max<size_t>(1, engine::usable_cpus() / kCpusPerTokenizerThread);
}

scheduler::SchedulerLimits scheduler_limits(
    const Options& options, const std::vector<std::unique_ptr<LoadedModel>>& models) {
  scheduler::SchedulerLimits limits;
  limits.dedup = dedup_mode(options.dedup);
  // Batches of all models keep within what the narrowest has room for.
  limits.batch_rows_max = models.front()->rows().batch;
  limits.sequence_tokens_max = 0;
  for (const auto& model : models) {
    limits.batch_rows_max = std::min(limits.batch_rows_max, model->rows().batch);
    limits.sequence_tokens_max = std::max(limits.sequence_tokens_max, model->input_tokens_max());
  }
  limits.batch_full_rows_max =
      std::max(limits.batch_full_rows_max, kFullRowsPerCompactRow * limits.batch_rows_max);
  limits.batch_sequences_max = options.max_batch_inputs;
  limits.batch_seconds_max = static_cast<double>(options.max_batch_ms) / 1e3;
  limits.batch_window = std::chrono::milliseconds(options.batch_window_ms);
  limits.queue_tickets_max = options.max_queue;
  limits.queue_tokens_max = options.max_queue_tokens;
  return limits;
}

}  // namespace

engine::DedupMode dedup_mode(const std::string& dedup) {
  if (dedup == "off") return engine::DedupMode::kOff;
  if (dedup == "radixmlp") return engine::DedupMode::kRadixMlp;
  return engine::DedupMode::kTrie;
}

server::Caller patient_caller() {
  server::Caller caller;
  caller.timeout = server::AskedTimeout{std::chrono::hours(24), scheduler::Clock::now()};
  return caller;
}

Runtime::Runtime(const Options& options, scheduler::SchedulerObserver* observer)
    : tokenizer_threads_(count_tokenizer_threads(options)),
      gemm_(choose_gemm(options.gemm, number_format(options.dtype))),
      pool_(std::make_shared<engine::ThreadPool>(options.threads > 0 ? options.threads
                                                                     : engine::usable_cpus())) {
  spdlog::info("kernels: {}; compute threads: {}", gemm_->description(), pool_->size());
  std::vector<scheduler::ModelPasses> passes;
  std::vector<server::ServedModel> served;
  const std::vector<ModelFiles> files = find_models(options);
  const std::vector<ModelOptions> own = model_options(options, names_of(files));
  request_budget_ = check_memory(files, options, *gemm_);
  for (size_t model = 0; model < files.size(); ++model) {
    models_.push_back(
        std::make_unique<LoadedModel>(files[model], own[model], options, gemm_, pool_));
    passes.push_back(models_.back()->passes());
    served.push_back(models_.back()->served(options, model));
    warm_up(served.back(), passes.back(), dedup_mode(options.dedup));
  }
  log_memory_in_use();
  scheduler_ =
      std::make_unique<scheduler::Scheduler>(passes, scheduler_limits(options, models_), observer);
  const auto tokenizers = std::make_shared<server::TokenizerThreads>(tokenizer_threads_);
  std::vector<const server::InferenceService*> services;
  for (size_t m = 0; m < models_.size(); ++m) {
    services_.push_back(std::make_unique<server::InferenceService>(
        std::move(served[m]), *scheduler_, tokenizers,
        server::RequestLimits{options.max_request_inputs, options.max_request_tokens}));
    services.push_back(services_.back().get());
  }
  directory_ = std::make_unique<server::ModelDirectory>(std::move(services));
}

}  // namespace espalier::commands
