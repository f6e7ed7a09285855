#include "server/commands/loaded_model.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "models/gguf_config.h"
#include "models/lora.h"
#include "models/pass_flops.h"
#include "server/commands/model_tokenizer.h"
#include "server/commands/progress_line.h"
#include "server/commands/rerank_choice.h"

namespace espalier::commands {
namespace {

std::unique_ptr<models::Model> load_model(const std::filesystem::path& folder,
                                          std::shared_ptr<const engine::GemmBackend> gemm,
                                          std::shared_ptr<engine::ThreadPool> pool,
                                          const std::vector<std::string>& adapters) {
  ProgressLine progress;
  const auto show = [&](size_t done, size_t total) {
    progress.update([&] {
      return fmt::format(
          "loading {}: {:.0f} % ({} of {})", folder.string(),
          100.0 * static_cast<double>(done) / static_cast<double>(std::max<size_t>(total, 1)),
          byte_text(done), byte_text(total));
    });
  };
  std::vector<std::filesystem::path> folders;
  for (const std::string& adapter : adapters) {
    folders.push_back(models::find_adapter(folder, adapter));
  }
  auto model = std::make_unique<models::Model>(
      models::Model::load(folder, std::move(gemm), std::move(pool), show, folders));
  spdlog::info("loaded {} in {:.2f} s", folder.string(), progress.seconds());
  for (const auto& adapter : folders) spdlog::info("with LoRA adapter {}", adapter.string());
  return model;
}

/// As shares of what a row costs.
scheduler::PassCosts pass_costs(const models::ModelConfig& config) {
  const models::PassFlops flops = models::count_flops(config);
  return {flops.pair / flops.row, flops.wanted / flops.row};
}

/// --default-prompt-name, or the model's own.
std::string default_prompt_name(const ModelOptions& own, const models::EmbeddingConfig& embedding) {
  const std::string& name = own.default_prompt_name;
  if (name.empty()) return embedding.default_prompt_name;
  if (embedding.prompts.contains(name)) return name;
  std::string names;
  for (const auto& [known, text] : embedding.prompts) names += (names.empty() ? "" : ", ") + known;
  throw std::runtime_error(
      fmt::format("--default-prompt-name {}: the model has no such prompt; it has {}", name,
                  names.empty() ? "none" : names));
}

/// --pooling, or the model's own.
models::Pooling pooling_of(const ModelOptions& own, const models::EmbeddingConfig& embedding) {
  if (own.pooling.empty()) return embedding.pooling;
  if (own.pooling == "last") return models::Pooling::kLastToken;
  if (own.pooling == "mean") return models::Pooling::kMean;
  if (own.pooling == "first") return models::Pooling::kFirstToken;
  throw std::runtime_error("--pooling " + own.pooling + ": expected last, mean or first");
}

scheduler::WantedRows wanted_rows(models::Pooling pooling) {
  switch (pooling) {
    case models::Pooling::kMean:
      return scheduler::WantedRows::kMean;
    case models::Pooling::kFirstToken:
      return scheduler::WantedRows::kFirst;
    case models::Pooling::kLastToken:
      break;
  }
  return scheduler::WantedRows::kLast;
}

/// Some embedding models' GGUF files, Qwen3-Embedding's of June 2025 among them, were made without
/// the setting that ends inputs as in training. llama.cpp computes what the file says, and warns;
/// so do we, with the same ids.
void warn_without_end_token(const std::filesystem::path& file, const ModelOptions& own,
                            const models::EmbeddingConfig& embedding,
                            const text::Tokenizer& tokenizer) {
  const bool embeds = embedding.has_pooling_module || !own.pooling.empty();
  const bool last = pooling_of(own, embedding) == models::Pooling::kLastToken;
  if (!models::is_gguf(file) || !embeds || !last || !tokenizer.suffix_tokens().empty()) return;
  spdlog::warn(
      "{}: tokenizer.ggml.add_eos_token is not true, so no end token is added to inputs, though "
      "embeddings are the last token's state. A model that was trained with one (Qwen3-Embedding: "
      "<|endoftext|>) gives worse embeddings without: use a newer GGUF file of it, or end every "
      "input with that token",
      file.string());
}

/// What the files say that the model was made for; of plain language models, rerankers are
/// published as they are, and embedding models with sentence-transformers' files or bare.
server::ModelPurpose purpose_of(const models::Model& model) {
  const models::EmbeddingConfig& embedding = model.embedding();
  if (model.rerank().says_so()) {
    return embedding.has_pooling_module ? server::ModelPurpose::kBoth
                                        : server::ModelPurpose::kReranking;
  }
  const bool embeds = embedding.has_pooling_module || embedding.from_sentence_transformers ||
                      model.config().architecture.ends_with("Model");
  return embeds ? server::ModelPurpose::kEmbedding : server::ModelPurpose::kReranking;
}

}  // namespace

LoadedModel::LoadedModel(const ModelFiles& files, ModelOptions own, const Options& options,
                         std::shared_ptr<const engine::GemmBackend> gemm,
                         std::shared_ptr<engine::ThreadPool> pool)
    : name_(files.name),
      other_names_(files.other_names),
      files_(files.folder),
      own_(std::move(own)),
      gemm_(std::move(gemm)),
      tokenizer_(std::make_unique<const text::Tokenizer>(load_tokenizer(files.folder))),
      model_(load_model(files.folder, gemm_, std::move(pool), own_.lora_adapters)),
      rows_(row_budget(options, model_->config(), *gemm_)),
      input_tokens_max_(commands::input_tokens_max(options, model_->config())) {
  model_->reserve(rows_.reserved, rows_.interlude);
  warn_without_end_token(files_, own_, model_->embedding(), *tokenizer_);
}

scheduler::ModelPasses LoadedModel::passes() {
  return {&model_->forward_pass(), &model_->interlude_pass(), pass_costs(model_->config())};
}

server::ServedModel LoadedModel::served(const Options& options, size_t scheduler_index) const {
  server::ServedModel served;
  served.name = name_;
  served.other_names = other_names_;
  served.scheduler_index = scheduler_index;
  served.tokenizer = tokenizer_.get();
  served.hidden_size = model_->config().hidden_size;
  served.embedding_size = model_->embedding_size();
  served.dimensions = model_->embedding().dimensions;
  served.vocab_size = model_->config().vocab_size;
  served.max_input_tokens = input_tokens_max_;
  served.request_timeout = std::chrono::seconds(options.request_timeout);
  served.prompts = model_->embedding().prompts;
  served.default_prompt_name = default_prompt_name(own_, model_->embedding());
  served.dtype = engine::name_of(gemm_->format());
  served.embed = [model = model_.get()](std::span<const float> hidden,
                                        std::optional<size_t> dimensions,
                                        std::optional<bool> normalize) {
    return model->embed(hidden, dimensions, normalize);
  };
  const models::Pooling pooling = pooling_of(own_, model_->embedding());
  served.pooling = models::name_of(pooling);
  served.pooled = wanted_rows(pooling);
  set_abilities(options, served);
  return served;
}

void LoadedModel::set_abilities(const Options& options, server::ServedModel& served) const {
  served.purpose = purpose_of(*model_);
  const bool has_pooling = model_->embedding().has_pooling_module;
  if (model_->rerank().says_so() && !has_pooling && own_.pooling.empty()) {
    served.cannot_embed =
        "its files say that it is a reranker. Send embedding requests to an embedding model, or "
        "start it with --pooling to embed with it all the same";
  }
  // Of a plain language model nothing says what it is for: it does both.
  const bool only_embeds = has_pooling && !model_->rerank().says_so();
  if (only_embeds && !asks_to_rerank(own_)) {
    served.cannot_rerank =
        "it is an embedding model. Send rerank requests to a reranker, or start the server with "
        "--rerank-by-similarity to rank by the cosine of its embeddings";
  } else {
    add_reranking(served);
  }
  if (options.rerank_by_similarity && served.can_embed()) served.cannot_rerank.clear();
  if (!served.can_rerank()) served.purpose = server::ModelPurpose::kEmbedding;
}

void LoadedModel::add_reranking(server::ServedModel& served) const {
  try {
    RerankChoice choice = choose_reranking(files_, *model_, *tokenizer_, own_);
    served.rerank_prompt.emplace(*tokenizer_, choice.rerank);
    const text::RerankPrompt& prompt = *served.rerank_prompt;
    auto ids = prompt.encode(std::nullopt, "", "", served.max_input_tokens).ids;
    if (prompt.takes_instruction()) {
      std::ranges::copy(prompt.encode("", "", "", served.max_input_tokens).ids,
                        std::back_inserter(ids));
    }
    if (!ids.empty() && *std::ranges::max_element(ids) >= served.vocab_size) {
      throw std::runtime_error("its embedding table lacks a token of the template");
    }
    served.relevance_logit = [head = std::move(choice.head),
                              scale = choice.scale](std::span<const float> hidden) {
      return head.logit(hidden) / scale;
    };
  } catch (const std::runtime_error& error) {
    // What the options ask for must work.
    if (asks_to_rerank(own_)) throw;
    served.cannot_rerank = error.what();
    served.rerank_prompt.reset();
  }
}

}  // namespace espalier::commands
