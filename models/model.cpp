#include "models/model.h"

#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "models/causal_decoder.h"
#include "models/decoder_weights.h"
#include "models/dense_layer.h"
#include "models/gguf_config.h"
#include "models/gguf_weights.h"
#include "models/heads.h"
#include "models/lora.h"
#include "models/weight_files.h"

namespace espalier::models {
namespace {

/// Bytes in the files of what load_decoder_weights() packs: everything but the token embeddings.
size_t bytes_to_pack(const ModelConfig& config, const WeightSource& source) {
  size_t bytes = 0;
  for (const ExpectedTensor& expected : expected_tensors(config)) {
    bytes += source.stored_bytes(expected.name);
  }
  return bytes - source.stored_bytes(expected_tensors(config).front().name);
}

/// A model that its authors use with one of its adapters only.
void require_adapter(const ModelConfig& config, const std::filesystem::path& folder) {
  std::string names;
  for (const std::string& name : config.needed_adapters) {
    names += (names.empty() ? "" : ", ") + name;
  }
  throw std::runtime_error((folder / "config.json").string() +
                           ": task_names: the model is used with one of its adapters (" + names +
                           "): --lora " + config.needed_adapters.front() +
                           "; or use a model that has one merged, " + config.merged_models +
                           config.needed_adapters.front());
}

std::unique_ptr<const WeightSource> open_weights(const std::filesystem::path& model) {
  if (is_gguf(model)) return std::make_unique<const GgufWeights>(GgufWeights::open(model));
  return std::make_unique<const WeightFiles>(WeightFiles::open(model));
}

}  // namespace

struct Model::Impl {
  ModelConfig config;
  EmbeddingConfig embedding;
  RerankConfig rerank;
  size_t embedding_size;
  std::vector<DenseLayer> dense;
  std::optional<RerankHead> classifier;
  std::unique_ptr<const WeightSource> source;
  std::optional<WeightTensor> head;  // (vocab × H)
  CausalDecoder decoder;             // its table of token embeddings is there too
  CausalDecoder interlude;
};

Model Model::load(const std::filesystem::path& folder,
                  std::shared_ptr<const engine::GemmBackend> gemm,
                  std::shared_ptr<engine::ThreadPool> pool, const LoadProgress& progress,
                  const std::vector<std::filesystem::path>& lora_adapters) {
  const ModelConfig config = read_model_config(folder);
  if (lora_adapters.empty() && !config.needed_adapters.empty()) require_adapter(config, folder);
  EmbeddingConfig embedding = read_embedding_config(folder);
  RerankConfig rerank = read_rerank_config(folder);
  const size_t embedding_size = models::embedding_size(embedding, config.hidden_size);
  std::vector<DenseLayer> dense;
  for (const DenseConfig& module : embedding.dense) dense.push_back(DenseLayer::load(module));
  std::unique_ptr<const WeightSource> source = open_weights(folder);
  if (!lora_adapters.empty()) source = LoraWeights::open(std::move(source), lora_adapters);
  std::set<std::string> head_tensors;
  if (rerank.labels > 0) head_tensors = {kClassifierWeight, kClassifierBias};
  check_tensors(config, *source, head_tensors);

  const ExpectedTensor head_name = head_tensor(config, *source);
  std::optional<WeightTensor> head;
  if (!head_name.name.empty()) head = source->tensor(head_name);
  std::optional<RerankHead> classifier;
  if (rerank.labels > 0) {
    const size_t relevant_label = rerank.labels == 2 && !rerank.first_label_is_relevant ? 1 : 0;
    classifier =
        RerankHead::of_classifier(*source, rerank.labels, relevant_label, config.hidden_size);
  }

  const size_t total = bytes_to_pack(config, *source);
  size_t done = 0;
  const auto report = [&](size_t bytes) {
    done += bytes;
    if (progress) progress(done, total);
  };
  DecoderWeights weights = load_decoder_weights(config, *source, *gemm, *pool, report);
  const auto graph = std::make_shared<const DecoderGraph>(config, std::move(weights));
  return Model(std::unique_ptr<Impl>(new Impl{.config = config,
                                              .embedding = std::move(embedding),
                                              .rerank = std::move(rerank),
                                              .embedding_size = embedding_size,
                                              .dense = std::move(dense),
                                              .classifier = std::move(classifier),
                                              .source = std::move(source),
                                              .head = std::move(head),
                                              .decoder = CausalDecoder(graph, gemm, pool),
                                              .interlude = CausalDecoder(graph, gemm, pool)}));
}

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

const ModelConfig& Model::config() const { return impl_->config; }
const EmbeddingConfig& Model::embedding() const { return impl_->embedding; }
const RerankConfig& Model::rerank() const { return impl_->rerank; }
size_t Model::embedding_size() const { return impl_->embedding_size; }
engine::ForwardPass& Model::forward_pass() { return impl_->decoder; }
engine::ForwardPass& Model::interlude_pass() { return impl_->interlude; }
const StageSeconds& Model::stage_seconds() const { return impl_->decoder.stage_seconds(); }

void Model::reserve(size_t rows, size_t interlude_rows) {
  impl_->decoder.reserve(rows, rows);
  impl_->interlude.reserve(interlude_rows, interlude_rows);
}

bool Model::has_head() const { return impl_->head.has_value(); }

std::vector<float> Model::embed(std::span<const float> hidden, std::optional<size_t> dimensions,
                                std::optional<bool> normalize) const {
  std::vector<float> projected;
  for (const DenseLayer& layer : impl_->dense) {
    projected = layer.apply(hidden);
    hidden = projected;
  }
  const size_t kept = impl_->embedding.default_dimensions.value_or(hidden.size());
  return pooled_embedding(hidden, dimensions.value_or(kept),
                          normalize.value_or(impl_->embedding.normalize));
}

RerankHead Model::token_head(uint32_t positive, std::optional<uint32_t> negative) const {
  if (!impl_->head) {
    throw std::runtime_error(
        "the model has no logits of tokens: its embeddings are untied and it has no "
        "lm_head.weight");
  }
  return RerankHead::of_tokens(impl_->head->view, positive, negative);
}

const std::optional<RerankHead>& Model::classifier() const { return impl_->classifier; }

float Model::token_logit(std::span<const float> hidden, uint32_t id) const {
  return static_cast<float>(token_head(id, std::nullopt).logit(hidden));
}

MemoryEstimate estimate_memory(const ModelConfig& config, const engine::GemmBackend& gemm,
                               size_t rows, size_t interlude_rows) {
  const bool half = config.torch_dtype == "bfloat16" || config.torch_dtype == "float16";
  const size_t table = config.table_bytes.value_or(config.vocab_size * config.hidden_size *
                                                   (half ? 2 : sizeof(float)));
  return {.packed_weights = packed_weight_bytes(config, gemm),
          .mapped_weights = config.tied_embeddings ? table : 2 * table,
          .workspace = workspace_bytes(config, gemm, rows, rows) +
                       workspace_bytes(config, gemm, interlude_rows, interlude_rows)};
}

}  // namespace espalier::models
