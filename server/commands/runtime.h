// Everything behind the front end, wired: models, threads, scheduler, service. The one
// place that knows the concrete types of every folder.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/gemm.h"
#include "engine/thread_pool.h"
#include "scheduler/scheduler.h"
#include "server/commands/loaded_model.h"
#include "server/commands/options.h"
#include "server/commands/request_budget.h"
#include "server/service/inference_service.h"
#include "server/service/model_directory.h"

namespace espalier::commands {

/// The mode that `dedup` ("trie", "radixmlp", "off") names.
engine::DedupMode dedup_mode(const std::string& dedup);

/// Whoever calls from the command line: waits as long as it takes.
server::Caller patient_caller();

/// Members are destroyed in reverse order: the scheduler's threads end before the models go.
class Runtime {
 public:
  /// Loads the models with progress on stderr. `observer` may be null and must outlive the runtime.
  Runtime(const Options& options, scheduler::SchedulerObserver* observer);

  const server::ModelDirectory& models() const { return *directory_; }
  /// Of the first model, which is the only one for commands other than serve.
  const server::InferenceService& service() const { return directory_->first(); }
  scheduler::Scheduler& scheduler() { return *scheduler_; }
  size_t tokenizer_threads() const { return tokenizer_threads_; }
  /// What memory is left for requests.
  const RequestBudget& request_budget() const { return request_budget_; }

 private:
  size_t tokenizer_threads_ = 1;
  RequestBudget request_budget_;
  std::shared_ptr<const engine::GemmBackend> gemm_;
  std::shared_ptr<engine::ThreadPool> pool_;
  std::vector<std::unique_ptr<LoadedModel>> models_;
  std::unique_ptr<scheduler::Scheduler> scheduler_;
  std::vector<std::unique_ptr<server::InferenceService>> services_;
  std::unique_ptr<server::ModelDirectory> directory_;
};

}  // namespace espalier::commands
