#include "server/commands/memory_prediction.h"

#include <fmt/format.h>

#include <numeric>
#include <system_error>

#include "models/model.h"
#include "server/commands/model_limits.h"
#include "server/commands/progress_line.h"

namespace espalier::commands {
namespace {

namespace fs = std::filesystem;

/// Measured: the program without a model, its heap's slack, the threads' stacks that are in use.
constexpr size_t kBase = size_t{5} << 20U;
/// Measured with the tokenizers of Qwen3 (11.4 MB of JSON, 151 669 entries: 20 MB) and
/// espalier-mini (0.5 MB, 8 192 entries: 1 MB).
constexpr double kTokenizerBytesPerFileByte = 1.8;
constexpr size_t kTokenizerBytesPerEntry = 135;
/// Stacks of threads and the arenas of the allocator reserve address space, not memory.
constexpr size_t kAddressSpaceOfThreads = size_t{512} << 20U;

/// 0 where there is no such file.
size_t file_bytes(const fs::path& file) {
  std::error_code error;
  const auto bytes = fs::file_size(file, error);
  return error ? 0 : bytes;
}

size_t weight_file_bytes(const fs::path& model) {
  std::error_code ignored;
  if (fs::is_regular_file(model, ignored)) return file_bytes(model);
  size_t bytes = 0;
  for (fs::directory_iterator entry(model, ignored), end; entry != end; entry.increment(ignored)) {
    if (entry->path().extension() != ".safetensors") continue;
    bytes += file_bytes(entry->path());
  }
  return bytes;
}

size_t tokenizer_memory(const PlannedModel& model) {
  if (model.tokenizer_bytes == 0) return model.config.vocab_size * kTokenizerBytesPerEntry;
  return static_cast<size_t>(kTokenizerBytesPerFileByte *
                             static_cast<double>(model.tokenizer_bytes));
}

template <typename Part>
size_t sum(const std::vector<ModelMemory>& models, Part part) {
  return std::transform_reduce(models.begin(), models.end(), size_t{0}, std::plus<>(), part);
}

}  // namespace

size_t MemoryPrediction::resident() const {
  return base + sum(models, [](const ModelMemory& model) { return model.resident(); });
}

size_t MemoryPrediction::address_space() const {
  return resident() + kAddressSpaceOfThreads +
         sum(models, [](const ModelMemory& model) { return model.mapped_files; });
}

std::vector<PlannedModel> plan_models(const std::vector<ModelFiles>& files) {
  std::vector<PlannedModel> models;
  for (const ModelFiles& model : files) {
    models.push_back({model.name, models::read_model_config(model.folder),
                      weight_file_bytes(model.folder),
                      file_bytes(model.folder / "tokenizer.json")});
  }
  return models;
}

MemoryPrediction predict_memory(const std::vector<PlannedModel>& models, const Options& options,
                                const engine::GemmBackend& gemm) {
  MemoryPrediction prediction;
  prediction.base = kBase;
  for (const PlannedModel& model : models) {
    const RowBudget rows = row_budget(options, model.config, gemm);
    const auto memory = models::estimate_memory(model.config, gemm, rows.reserved, rows.interlude);
    prediction.models.push_back({.name = model.name,
                                 .packed_weights = memory.packed_weights,
                                 .tokenizer = tokenizer_memory(model),
                                 .workspace = memory.workspace,
                                 .mapped_tables = memory.mapped_weights,
                                 .mapped_files = model.file_bytes});
  }
  return prediction;
}

std::string parts_text(const MemoryPrediction& prediction) {
  const auto& models = prediction.models;
  return fmt::format(
      "{}: weights {}, tokenizer {}, batches {}, base {}", byte_text(prediction.resident()),
      byte_text(sum(models, [](const ModelMemory& model) { return model.packed_weights; })),
      byte_text(sum(models, [](const ModelMemory& model) { return model.tokenizer; })),
      byte_text(sum(models, [](const ModelMemory& model) { return model.workspace; })),
      byte_text(prediction.base));
}

}  // namespace espalier::commands
