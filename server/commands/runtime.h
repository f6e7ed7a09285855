// Everything behind the front end, wired: tokenizer, model, threads, scheduler, service. The one
// place that knows the concrete types of every folder.
#pragma once

#include <filesystem>
#include <memory>

#include "engine/gemm.h"
#include "engine/thread_pool.h"
#include "models/model.h"
#include "scheduler/scheduler.h"
#include "server/commands/options.h"
#include "server/service/inference_service.h"
#include "text/tokenizer.h"

namespace espalier::commands {

/// The folder that `options.model` names, or the bundled model's. Throws std::runtime_error if it
/// is none.
std::filesystem::path model_folder(const Options& options);

/// The longest input, special tokens included: --max-input-tokens, checked against the model's
/// maximum.
size_t input_tokens_max(const Options& options, const models::ModelConfig& config);

/// The mode that `dedup` ("trie", "radixmlp", "off") names.
engine::DedupMode dedup_mode(const std::string& dedup);

/// How many rows batches have, and for how many memory is reserved at start-up.
struct RowBudget {
  size_t batch = 0;      // compact rows of a batch, at most: --max-batch-tokens, --max-workspace-mb
  size_t reserved = 0;   // of the largest batch, which may be one input
  size_t interlude = 0;  // of a short batch that runs within a long one
};
/// Throws std::runtime_error if --max-workspace-mb leaves room for next to nothing.
RowBudget row_budget(const Options& options, const models::ModelConfig& config,
                     const engine::GemmBackend& gemm);

/// Whoever calls from the command line: waits as long as it takes.
server::Caller patient_caller();

/// Members are destroyed in reverse order: the scheduler's threads end before the model goes.
class Runtime {
 public:
  /// Loads the model with progress on stderr. `observer` may be null and must outlive the runtime.
  Runtime(const Options& options, scheduler::SchedulerObserver* observer);

  const server::InferenceService& service() const { return *service_; }
  scheduler::Scheduler& scheduler() { return *scheduler_; }
  size_t tokenizer_threads() const { return tokenizer_threads_; }

 private:
  server::ServedModel served_model(const Options& options) const;

  std::filesystem::path folder_;
  size_t tokenizer_threads_ = 1;
  std::unique_ptr<const text::Tokenizer> tokenizer_;
  std::shared_ptr<const engine::GemmBackend> gemm_;
  std::shared_ptr<engine::ThreadPool> pool_;
  std::unique_ptr<models::Model> model_;
  std::unique_ptr<scheduler::Scheduler> scheduler_;
  std::unique_ptr<server::InferenceService> service_;
};

}  // namespace espalier::commands
