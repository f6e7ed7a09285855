#include "server/commands/runtime.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "models/pass_flops.h"
#include "server/commands/bundled_model.h"
#include "server/commands/gemm_choice.h"
#include "server/commands/progress_line.h"

namespace espalier::commands {
namespace {

/// --max-input-tokens when it is not given: long enough for documents, bounded for everyone's
/// latency.
constexpr size_t kDefaultInputTokensMax = 8192;
/// Batches of fewer rows read the weights for next to nothing.
constexpr size_t kBatchRowsMin = 64;
/// Full rows of a batch cost no computing, but memory for their ids and maps.
constexpr size_t kFullRowsPerCompactRow = 16;
/// CPUs for each tokenizing thread: a tokenizer is far faster than a model.
constexpr size_t kCpusPerTokenizerThread = 4;

size_t count_tokenizer_threads(const Options& options) {
  if (options.tokenizer_threads > 0) return options.tokenizer_threads;
  return std::max<size_t>(1, engine::usable_cpus() / kCpusPerTokenizerThread);
}

std::unique_ptr<models::Model> load_model(const std::filesystem::path& folder,
                                          std::shared_ptr<const engine::GemmBackend> gemm,
                                          std::shared_ptr<engine::ThreadPool> pool) {
  ProgressLine progress;
  auto model = std::make_unique<models::Model>(
      models::Model::load(folder, std::move(gemm), std::move(pool), [&](size_t done, size_t total) {
        progress.update([&] {
          return fmt::format(
              "loading {}: {:.0f} % ({} of {})", folder.string(),
              100.0 * static_cast<double>(done) / static_cast<double>(std::max<size_t>(total, 1)),
              byte_text(done), byte_text(total));
        });
      }));
  spdlog::info("loaded {} in {:.2f} s", folder.string(), progress.seconds());
  return model;
}

/// As shares of what a row costs.
scheduler::PassCosts pass_costs(const models::ModelConfig& config) {
  const models::PassFlops flops = models::count_flops(config);
  return {flops.pair / flops.row, flops.wanted / flops.row};
}

/// --default-prompt-name, or the model's own.
std::string default_prompt_name(const Options& options, const models::EmbeddingConfig& embedding) {
  const std::string& name = options.default_prompt_name;
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

std::filesystem::path model_folder(const Options& options) {
  if (options.model.empty()) return find_bundled_model();
  std::error_code error;
  if (!std::filesystem::is_directory(options.model, error)) {
    throw std::runtime_error(
        "--model " + options.model +
        " is not a folder; it must be one that holds config.json, tokenizer.json and "
        "model.safetensors");
  }
  // Without "." and a trailing slash the last part is the model's name.
  return std::filesystem::canonical(options.model);
}

size_t input_tokens_max(const Options& options, const models::ModelConfig& config) {
  if (options.max_input_tokens == 0) return std::min(kDefaultInputTokensMax, config.max_positions);
  if (options.max_input_tokens > config.max_positions) {
    throw std::runtime_error(
        fmt::format("--max-input-tokens {} is more than the model's {} positions",
                    options.max_input_tokens, config.max_positions));
  }
  return options.max_input_tokens;
}

engine::DedupMode dedup_mode(const std::string& dedup) {
  if (dedup == "off") return engine::DedupMode::kOff;
  if (dedup == "radixmlp") return engine::DedupMode::kRadixMlp;
  return engine::DedupMode::kTrie;
}

server::Caller patient_caller() {
  server::Caller caller;
  caller.timeout = server::AskedTimeout{std::chrono::hours(24), scheduler::Clock::now()};
  return caller;
}

RowBudget row_budget(const Options& options, const models::ModelConfig& config,
                     const engine::GemmBackend& gemm) {
  RowBudget rows;
  rows.batch = options.max_batch_tokens;
  rows.reserved = std::max(rows.batch, input_tokens_max(options, config));
  // As many rows as an input may always have that runs within a long batch; larger ones allocate.
  rows.interlude = std::min(rows.reserved, scheduler::InterludeLimits().always_short_tokens);
  if (options.max_workspace_mb == 0) return rows;

  const auto fits = [&](size_t batch) {
    return models::estimate_memory(config, gemm, batch, std::min(batch, rows.interlude))
               .workspace <= options.max_workspace_mb << 20U;
  };
  // The largest number of rows that fits, between `batch`, which does, and `beyond`, which does
  // not.
  size_t batch = 0;
  for (size_t beyond = rows.batch + 1; beyond - batch > 1;) {
    const size_t middle = batch + (beyond - batch) / 2;
    (fits(middle) ? batch : beyond) = middle;
  }
  if (batch < std::min(kBatchRowsMin, rows.batch)) {
    throw std::runtime_error(fmt::format(
        "--max-workspace-mb {} is too little: this model's batches would have {} rows, and need {} "
        "or more",
        options.max_workspace_mb, batch, kBatchRowsMin));
  }
  return {batch, batch, std::min(batch, rows.interlude)};
}

Runtime::Runtime(const Options& options, scheduler::SchedulerObserver* observer)
    : folder_(model_folder(options)),
      tokenizer_threads_(count_tokenizer_threads(options)),
      gemm_(choose_gemm(options.gemm, number_format(options.dtype))),
      pool_(std::make_shared<engine::ThreadPool>(options.threads > 0 ? options.threads
                                                                     : engine::usable_cpus())) {
  spdlog::info("kernels: {}; compute threads: {}", gemm_->description(), pool_->size());
  tokenizer_ =
      std::make_unique<const text::Tokenizer>(text::Tokenizer::load(folder_ / "tokenizer.json"));
  model_ = load_model(folder_, gemm_, pool_);

  const RowBudget rows = row_budget(options, model_->config(), *gemm_);
  scheduler::SchedulerLimits limits;
  limits.dedup = dedup_mode(options.dedup);
  limits.batch_rows_max = rows.batch;
  limits.batch_full_rows_max =
      std::max(limits.batch_full_rows_max, kFullRowsPerCompactRow * rows.batch);
  limits.sequence_tokens_max = input_tokens_max(options, model_->config());
  limits.batch_sequences_max = options.max_batch_inputs;
  limits.batch_seconds_max = static_cast<double>(options.max_batch_ms) / 1e3;
  limits.batch_window = std::chrono::milliseconds(options.batch_window_ms);
  limits.queue_tickets_max = options.max_queue;
  limits.queue_tokens_max = options.max_queue_tokens;
  model_->reserve(rows.reserved, rows.interlude);
  scheduler_ = std::make_unique<scheduler::Scheduler>(
      std::vector<scheduler::ModelPasses>{
          {&model_->forward_pass(), &model_->interlude_pass(), pass_costs(model_->config())}},
      limits, observer);
  service_ = std::make_unique<server::InferenceService>(
      served_model(options), *scheduler_, tokenizer_threads_,
      server::RequestLimits{options.max_request_inputs, options.max_request_tokens});
}

server::ServedModel Runtime::served_model(const Options& options) const {
  server::ServedModel served;
  served.name = folder_.filename().string();
  served.tokenizer = tokenizer_.get();
  served.hidden_size = model_->config().hidden_size;
  served.vocab_size = model_->config().vocab_size;
  served.max_input_tokens = input_tokens_max(options, model_->config());
  served.request_timeout = std::chrono::seconds(options.request_timeout);
  served.prompts = model_->embedding().prompts;
  served.default_prompt_name = default_prompt_name(options, model_->embedding());
  served.dtype = engine::name_of(gemm_->format());
  served.embed = [model = model_.get()](std::span<const float> hidden,
                                        std::optional<size_t> dimensions,
                                        std::optional<bool> normalize) {
    return model->embed(hidden, dimensions, normalize);
  };

  if (!model_->has_head()) {
    spdlog::info("this model cannot rerank: it has no lm_head.weight");
    return served;
  }
  const auto yes = tokenizer_->token_id("yes");
  const auto no = tokenizer_->token_id("no");
  if (!yes || !no || std::max(*yes, *no) >= served.vocab_size) {
    spdlog::info("this model cannot rerank: it has no tokens `yes` and `no`");
    return served;
  }
  try {
    served.rerank_prompt.emplace(*tokenizer_);
    const auto ids = served.rerank_prompt->encode("", "", "", served.max_input_tokens).ids;
    if (*std::ranges::max_element(ids) >= served.vocab_size) {
      throw std::runtime_error("its embedding table lacks a token of the template");
    }
  } catch (const std::runtime_error& error) {
    spdlog::info("this model cannot rerank: {}", error.what());
    served.rerank_prompt.reset();
    return served;
  }
  served.relevance_logit = [model = model_.get(), yes = *yes,
                            no = *no](std::span<const float> hidden) {
    return relevance_logit(*model, yes, no, hidden);
  };
  return served;
}

}  // namespace espalier::commands
