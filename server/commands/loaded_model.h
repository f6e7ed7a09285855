// One model, loaded: tokenizer, weights, and what the front end sees of it.
//
// Thread contract: as models::Model; served() may be called from any thread.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/gemm.h"
#include "engine/thread_pool.h"
#include "models/model.h"
#include "scheduler/scheduler.h"
#include "server/commands/model_files.h"
#include "server/commands/model_limits.h"
#include "server/commands/model_options.h"
#include "server/commands/options.h"
#include "server/service/served_model.h"
#include "text/tokenizer.h"

namespace espalier::commands {

class LoadedModel {
 public:
  /// Loads the model with progress on stderr: `own` is what the options say of this one. Throws
  /// std::runtime_error.
  LoadedModel(const ModelFiles& files, ModelOptions own, const Options& options,
              std::shared_ptr<const engine::GemmBackend> gemm,
              std::shared_ptr<engine::ThreadPool> pool);

  const RowBudget& rows() const { return rows_; }
  size_t input_tokens_max() const { return input_tokens_max_; }

  /// The passes that the scheduler runs; valid as long as this.
  scheduler::ModelPasses passes();

  /// As the front end sees it, as the scheduler's model `scheduler_index`; refers to this.
  server::ServedModel served(const Options& options, size_t scheduler_index) const;

 private:
  void set_abilities(const Options& options, server::ServedModel& served) const;
  void add_reranking(server::ServedModel& served) const;

  std::string name_;
  std::vector<std::string> other_names_;
  std::filesystem::path files_;
  ModelOptions own_;
  std::shared_ptr<const engine::GemmBackend> gemm_;
  std::unique_ptr<const text::Tokenizer> tokenizer_;
  std::unique_ptr<models::Model> model_;
  RowBudget rows_;
  size_t input_tokens_max_;
};

}  // namespace espalier::commands
