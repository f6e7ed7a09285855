#include "server/commands/loaded_model.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "models/lora.h"
#include "models/pass_flops.h"
#include "server/commands/model_tokenizer.h"
#include "server/commands/progress_line.h"

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

/// The logit of P(yes) of Qwen3-Reranker: softmax over `no` and `yes` is sigmoid(yes - no).
double relevance_logit(const models::Model& model, uint32_t yes, uint32_t no,
                       std::span<const float> hidden) {
  return static_cast<double>(model.token_logit(hidden, yes)) - model.token_logit(hidden, no);
}

}  // namespace

LoadedModel::LoadedModel(const ModelFiles& files, ModelOptions own, const Options& options,
                         std::shared_ptr<const engine::GemmBackend> gemm,
                         std::shared_ptr<engine::ThreadPool> pool)
    : name_(files.name),
      other_names_(files.other_names),
      own_(std::move(own)),
      gemm_(std::move(gemm)),
      tokenizer_(std::make_unique<const text::Tokenizer>(load_tokenizer(files.folder))),
      model_(load_model(files.folder, gemm_, std::move(pool), own_.lora_adapters)),
      rows_(row_budget(options, model_->config(), *gemm_)),
      input_tokens_max_(commands::input_tokens_max(options, model_->config())) {
  model_->reserve(rows_.reserved, rows_.interlude);
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
  served.embedding_size = served.hidden_size;
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
  add_reranking(served);
  // sentence-transformers' files come with embedding models; rerankers of causal models are bare.
  const bool embeds = model_->embedding().from_sentence_transformers || !served.can_rerank();
  served.purpose = embeds ? server::ModelPurpose::kEmbedding : server::ModelPurpose::kReranking;
  return served;
}

void LoadedModel::add_reranking(server::ServedModel& served) const {
  if (!model_->has_head()) {
    served.cannot_rerank = "it has no lm_head.weight";
    return;
  }
  const auto yes = tokenizer_->token_id("yes");
  const auto no = tokenizer_->token_id("no");
  if (!yes || !no || std::max(*yes, *no) >= served.vocab_size) {
    served.cannot_rerank = "it has no tokens `yes` and `no`";
    return;
  }
  try {
    served.rerank_prompt.emplace(*tokenizer_);
    const auto ids = served.rerank_prompt->encode("", "", "", served.max_input_tokens).ids;
    if (*std::ranges::max_element(ids) >= served.vocab_size) {
      throw std::runtime_error("its embedding table lacks a token of the template");
    }
  } catch (const std::runtime_error& error) {
    served.cannot_rerank = error.what();
    served.rerank_prompt.reset();
    return;
  }
  served.relevance_logit = [model = model_.get(), yes = *yes,
                            no = *no](std::span<const float> hidden) {
    return relevance_logit(*model, yes, no, hidden);
  };
}

}  // namespace espalier::commands
