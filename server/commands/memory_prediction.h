// What serving the models will take in memory, told from their configurations before a weight is
// read.
//
// Thread contract: stateless.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/gemm.h"
#include "models/model_config.h"
#include "server/commands/model_files.h"
#include "server/commands/options.h"

namespace espalier::commands {

/// One model's, in bytes.
struct ModelMemory {
  std::string name;
  size_t packed_weights = 0;  // in the backend's format
  size_t tokenizer = 0;       // vocabulary and merges
  size_t workspace = 0;       // activations of the largest batch, and of an interlude
  size_t mapped_tables = 0;   // of token embeddings, in the page cache: the kernel may drop them
  size_t mapped_files = 0;    // address space alone

  /// What stays in memory.
  size_t resident() const { return packed_weights + tokenizer + workspace; }
};

struct MemoryPrediction {
  std::vector<ModelMemory> models;
  size_t base = 0;  // the program, its threads, its queue

  /// What stays in memory once the largest batches have run. The pages of mapped tables and
  /// requests (request_budget.h) come on top.
  size_t resident() const;
  /// Address space that will be asked for beyond what is in use.
  size_t address_space() const;
};

/// A model that will be loaded.
struct PlannedModel {
  std::string name;
  models::ModelConfig config;
  size_t file_bytes = 0;       // of its weights
  size_t tokenizer_bytes = 0;  // of tokenizer.json; 0: the vocabulary is elsewhere
};
/// Throws std::runtime_error for configurations that cannot be read.
std::vector<PlannedModel> plan_models(const std::vector<ModelFiles>& files);

/// Throws std::runtime_error as row_budget().
MemoryPrediction predict_memory(const std::vector<PlannedModel>& models, const Options& options,
                                const engine::GemmBackend& gemm);

/// "1.07 GB: 881.1 MB weights + …", without mapped tables and requests.
std::string parts_text(const MemoryPrediction& prediction);

}  // namespace espalier::commands
