#include <fmt/format.h>

#include <iostream>

#include "models/lora.h"
#include "models/lora_config.h"
#include "models/model.h"
#include "models/rerank_config.h"
#include "server/commands/commands.h"
#include "server/commands/gemm_choice.h"
#include "server/commands/memory_limit.h"
#include "server/commands/memory_prediction.h"
#include "server/commands/model_files.h"
#include "server/commands/model_limits.h"
#include "server/commands/model_options.h"
#include "server/commands/model_tokenizer.h"
#include "server/commands/progress_line.h"
#include "server/commands/request_budget.h"
#include "text/tokenizer.h"

namespace espalier::commands {
namespace {

void row(const std::string& name, const std::string& value) {
  std::cout << fmt::format("{:<16} {}\n", name, value);
}

/// One line, with its line breaks spelled out.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + '"';
}

void print_prompts(const models::EmbeddingConfig& embedding) {
  row("prompts", embedding.prompts.empty() ? "none" : "");
  for (const auto& [name, prompt] : embedding.prompts) {
    const char* mark = name == embedding.default_prompt_name ? " (default)" : "";
    std::cout << fmt::format("  {:<14} {}{}\n", name, quoted(prompt), mark);
  }
}

/// How the model's files say that it scores documents. Options may make another reranker of it.
std::string reranking(const models::RerankConfig& rerank, const models::EmbeddingConfig& embedding,
                      const text::Tokenizer& tokenizer) {
  const auto token = [&](uint32_t id) {
    const auto content = tokenizer.token_content(id);
    return fmt::format("{} ({})", quoted(std::string(content.value_or("?"))), id);
  };
  if (rerank.labels > 0) return fmt::format("by a classifier of {} labels", rerank.labels);
  if (rerank.logit_score) {
    const auto& score = *rerank.logit_score;
    return "by the logit of " + token(score.true_token) +
           (score.false_token ? " less that of " + token(*score.false_token) : "");
  }
  if (!rerank.classifier_tokens.empty()) return "by a classifier made of the language model's head";
  if (embedding.has_pooling_module)
    return "no: an embedding model (but see --rerank-by-similarity)";
  return "by the logits of the family's tokens: a plain language model";
}

void print_memory(const MemoryPrediction& prediction, const RowBudget& rows,
                  size_t body_bytes_max) {
  const ModelMemory& model = prediction.models.front();
  row("memory", fmt::format("{} when serving, at most:", byte_text(prediction.resident())));
  const auto part = [](const std::string& name, size_t bytes, const std::string& what) {
    std::cout << fmt::format("  {:<14} {:>9}  {}\n", name, byte_text(bytes), what);
  };
  part("weights", model.packed_weights, "packed for the kernels");
  part("tokenizer", model.tokenizer, "vocabulary and merges");
  part("batches", model.workspace,
       fmt::format("activations of {} rows, and of {} that overtake", rows.reserved,
                   rows.interlude));
  part("base", prediction.base, "the program and its threads");
  part("besides", model.mapped_tables,
       "tables mapped from the file: page cache, which the kernel may drop");
  const MemoryLimit limit = memory_limit();
  const RequestBudget requests = request_budget(limit, prediction.resident(), body_bytes_max);
  part("", requests.total(), "requests at once, at most: bodies, reading and answering them");
  if (limit.bytes != UINT64_MAX) part("limit", limit.bytes, limit.source);
}

}  // namespace

int inspect(const Options& options) {
  const ModelFiles files = find_only_model(options);
  const auto& folder = files.folder;
  const auto config = models::read_model_config(folder);
  const auto embedding = models::read_embedding_config(folder);
  const auto tokenizer = load_tokenizer(folder);
  const auto gemm = choose_gemm(options.gemm, number_format(options.dtype));
  const RowBudget rows = row_budget(options, config, *gemm);

  row("model", folder.string());
  row("architecture", config.architecture.empty()
                          ? config.model_type
                          : config.model_type + " (" + config.architecture + ")");
  row("layers", std::to_string(config.layers));
  row("hidden size", std::to_string(config.hidden_size));
  row("MLP size", std::to_string(config.intermediate_size));
  row("heads", fmt::format("{} query, {} key-value, of {} dimensions", config.query_heads,
                           config.kv_heads, config.head_dim));
  row("positions",
      fmt::format("{} by {} (RoPE theta {}, {}); inputs up to {} tokens", config.max_positions,
                  models::limit_of_positions(config), config.rope_theta,
                  engine::name_of(config.rope_scaling.kind), input_tokens_max(options, config)));
  row("vocabulary",
      fmt::format("{} rows, {} head; tokenizer has {} ids", config.vocab_size,
                  config.tied_embeddings ? "tied" : "separate", tokenizer.id_count()));
  row("weights", fmt::format("published as {}, computed in {}",
                             config.torch_dtype.empty() ? "unknown type" : config.torch_dtype,
                             name_of(gemm->format())));
  const std::vector<ModelOptions> own = model_options(options, {files.name});
  for (const std::string& adapter : own.front().lora_adapters) {
    const auto lora_folder = models::find_adapter(folder, adapter);
    const auto lora = models::read_lora_config(lora_folder);
    row("LoRA", fmt::format("{}, rank {}, alpha {}{}", lora_folder.string(), lora.rank, lora.alpha,
                            lora.rslora ? ", rank-stabilised" : ""));
  }
  row("pooling", fmt::format("{}, {}{}", models::name_of(embedding.pooling),
                             embedding.normalize ? "L2-normalised" : "not normalised",
                             embedding.from_sentence_transformers
                                 ? ""
                                 : " (assumed: no sentence-transformers files)"));
  for (const models::DenseConfig& dense : embedding.dense) {
    row("dense", fmt::format("{} to {}", dense.inputs, dense.outputs));
  }
  print_prompts(embedding);
  row("reranks", reranking(models::read_rerank_config(folder), embedding, tokenizer));
  row("kernels", gemm->description());
  row("dedup", options.dedup);
  print_memory(predict_memory(plan_models({files}), options, *gemm), rows,
               options.max_body_mb << 20U);
  return EXIT_SUCCESS;
}

}  // namespace espalier::commands
