// A model folder as Hugging Face publishes it, loaded: weights, forward pass, heads.
//
// Thread contract: forward_pass() is used by one thread at a time; everything else is const and may
// be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/forward_pass.h"
#include "engine/gemm.h"
#include "engine/thread_pool.h"
#include "models/embedding_config.h"
#include "models/model_config.h"
#include "models/rerank_config.h"
#include "models/rerank_head.h"
#include "models/stage_seconds.h"

namespace espalier::models {

/// Called while weights are packed, from the loading thread.
using LoadProgress = std::function<void(size_t bytes_done, size_t bytes_total)>;

/// What a model takes in memory, in bytes.
struct MemoryEstimate {
  size_t packed_weights = 0;  // what the engine holds in its own format
  size_t mapped_weights =
      0;                 // pages of the files that are read while it runs (the embedding table)
  size_t workspace = 0;  // activations of a batch of the given size
};

class Model {
 public:
  /// Loads `folder`, or a GGUF file, packing one tensor at a time. Throws std::runtime_error with
  /// the file, the key and the reason for whatever is missing, malformed, misshapen, or would
  /// change results and is not supported. `lora_adapters` (folders, see lora.h) are added to its
  /// weights.
  static Model load(const std::filesystem::path& folder,
                    std::shared_ptr<const engine::GemmBackend> gemm,
                    std::shared_ptr<engine::ThreadPool> pool, const LoadProgress& progress,
                    const std::vector<std::filesystem::path>& lora_adapters = {});

  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  const ModelConfig& config() const;         // config.json
  const EmbeddingConfig& embedding() const;  // sentence-transformers' files, or the defaults
  const RerankConfig& rerank() const;        // likewise

  /// E: values of an embedding; those of a hidden state where there are no Dense modules.
  size_t embedding_size() const;

  engine::ForwardPass& forward_pass();

  /// A second pass with the same weights and activations of its own, which may run while the first
  /// is inside its progress callback, on the same thread.
  engine::ForwardPass& interlude_pass();

  /// Makes room for batches of up to `rows` compact rows, and for interludes of `interlude_rows`;
  /// all of their rows may be wanted. Larger batches, and all in
  /// DedupMode::kRadixMlp, allocate when they come.
  void reserve(size_t rows, size_t interlude_rows);

  /// Where the time of forward_pass() has gone so far.
  const StageSeconds& stage_seconds() const;

  /// The embedding of a pooled hidden state (H): the Dense modules' output, of that the first
  /// `dimensions` (all by default, or those that the model says), then L2-normalised if
  /// `normalize`, by default if the model says so. 1 <= dimensions <= E.
  std::vector<float> embed(std::span<const float> hidden, std::optional<size_t> dimensions,
                           std::optional<bool> normalize = {}) const;

  /// Whether there are logits of tokens: untied models may come without `lm_head.weight`, and then
  /// only embed, or score by a classification head.
  bool has_head() const;

  /// The score that is the logit of token `positive`, less that of `negative`. Throws
  /// std::runtime_error when there is no head, std::out_of_range for ids beyond the vocabulary.
  RerankHead token_head(uint32_t positive, std::optional<uint32_t> negative) const;

  /// The classification head, of rerank().labels; absent: the model has none.
  const std::optional<RerankHead>& classifier() const;

  /// The head's logit of token `id` for a hidden state (H). Throws as token_head() does.
  float token_logit(std::span<const float> hidden, uint32_t id) const;

 private:
  struct Impl;
  explicit Model(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// What loading `config` would take, before it is loaded, and reserving as Model::reserve() does.
/// The buffers that DedupMode::kRadixMlp needs besides are not in it.
MemoryEstimate estimate_memory(const ModelConfig& config, const engine::GemmBackend& gemm,
                               size_t rows, size_t interlude_rows);

}  // namespace espalier::models
