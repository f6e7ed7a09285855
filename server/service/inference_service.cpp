#include "server/service/inference_service.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "server/service/model_inputs.h"
#include "server/service/token_budget.h"
#include "server/service/token_texts.h"

namespace espalier::server {
namespace {

using scheduler::Clock;

/// How often a waiting request asks whether its client is still there.
constexpr std::chrono::milliseconds kWaitSlice{50};

// Of what answers take in memory, in bytes, measured with inputs made for it.
constexpr size_t kTrieBytesPerToken = 40;
constexpr size_t kScoreTextBytes = 128;
constexpr size_t kShownBytesPerByte = 200;       // of a text that is tokenized to be shown
constexpr size_t kDecodedBytesPerId = 8;         // more is rare
constexpr size_t kShownBytesPerDecodedByte = 5;  // control characters, which take more, are, too

ApiError client_gone_error() {
  ApiError error;
  error.kind = ErrorKind::kClientGone;
  error.message = "the client closed the connection before the answer was ready";
  return error;
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Adds the time until it goes away to `seconds`, however the scope is left.
class ScopedTimer {
 public:
  explicit ScopedTimer(double& seconds) : seconds_(seconds) {}
  ~ScopedTimer() { seconds_ += seconds_since(start_); }
  ScopedTimer(const ScopedTimer&) = delete;
  ScopedTimer& operator=(const ScopedTimer&) = delete;

 private:
  double& seconds_;
  Clock::time_point start_ = Clock::now();
};

/// One request under way: when it must be done and whether anybody still wants it.
class Attempt {
 public:
  Attempt(const ServedModel& model, const scheduler::Scheduler& scheduler, const Caller& caller)
      : caller_(caller), deadline_(model.request_timeout, caller.timeout, Clock::now()) {
    deadline_.expect(scheduler.predicted_seconds(model.scheduler_index, 0));
  }

  const Identity& identity() const { return caller_.identity; }
  RequestDeadline& deadline() { return deadline_; }

  /// Memory for an answer that takes up to `bytes`.
  std::optional<ApiError> reserve(size_t bytes) const {
    if (!caller_.reserve) return std::nullopt;
    return caller_.reserve(bytes, [this] { return interrupted(); });
  }

  std::optional<ApiError> interrupted() const {
    if (caller_.gone && caller_.gone()) return client_gone_error();
    if (Clock::now() >= deadline_.at()) return deadline_.error();
    return std::nullopt;
  }

 private:
  const Caller& caller_;
  RequestDeadline deadline_;
};

size_t count_tokens(const std::vector<TokenIds>& sequences) {
  size_t tokens = 0;
  for (const auto& ids : sequences) tokens += ids.size();
  return tokens;
}

/// Submits `sequences` and waits for their last hidden states, in the same order. `param` is the
/// request's field that holds the inputs.
Result<scheduler::Completed> compute(scheduler::Scheduler& scheduler, const ServedModel& model,
                                     std::vector<TokenIds> sequences, scheduler::WantedRows wanted,
                                     const std::string& param, Attempt& attempt,
                                     RequestReport& report) {
  const auto as_api_error = [&](const scheduler::Failure& failure) {
    if (failure.kind == scheduler::FailureKind::kDeadline)
      return tl::unexpected(attempt.deadline().error());
    ApiError error = from_failure(failure);
    if (error.kind == ErrorKind::kInvalidRequest) error.param = param;
    return tl::unexpected(std::move(error));
  };
  attempt.deadline().expect(scheduler.predicted_seconds(model.scheduler_index, report.tokens));
  scheduler::Submission submission;
  submission.model = model.scheduler_index;
  submission.tenant = attempt.identity().tenant;
  submission.client = attempt.identity().client;
  submission.weight = attempt.identity().weight;
  submission.deadline = attempt.deadline().at();
  submission.sequences.reserve(sequences.size());
  for (auto& ids : sequences) submission.sequences.push_back({std::move(ids), wanted});

  const auto submitted = scheduler.submit(std::move(submission));
  if (!submitted) return as_api_error(submitted.error());
  scheduler::PendingRequest& pending = **submitted;
  while (!pending.wait_for(kWaitSlice)) {
    if (auto error = attempt.interrupted()) {
      pending.cancel();
      return tl::unexpected(std::move(*error));
    }
  }
  auto outcome = pending.take();
  if (!outcome) return as_api_error(outcome.error());
  report.computed = true;
  report.queue_seconds = outcome->stats.queue_seconds;
  report.compute_seconds = outcome->stats.compute_seconds;
  report.new_rows = outcome->stats.new_rows;
  return std::move(*outcome);
}

/// Tokenizes a request's inputs on `threads` while anybody wants it.
EachInput each_input(TokenizerThreads& threads, const Attempt& attempt) {
  return [&](size_t count, const InputTask& task) {
    return threads.run(count, task, [&] { return attempt.interrupted(); });
  };
}

/// Code points; what is no UTF-8 counts as its bytes that are no continuation.
size_t count_characters(std::string_view text) {
  const auto starts = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; };
  return static_cast<size_t>(std::ranges::count_if(text, starts));
}

ApiError cannot_embed(const ServedModel& model) {
  return {ErrorKind::kInvalidRequest,
          "the model " + model.name + " cannot embed: " + model.cannot_embed,
          "model",
          "model_cannot_embed",
          {}};
}

ApiError cannot_rerank(const ServedModel& model, const std::string& why) {
  return {ErrorKind::kInvalidRequest,
          "the model " + model.name + " cannot rerank: " + why,
          "model",
          "model_cannot_rerank",
          {}};
}

bool has_dimensions(const ServedModel& model, size_t dimensions) {
  if (model.dimensions.empty()) return dimensions >= 1 && dimensions <= model.embedding_size;
  return dimensions == model.embedding_size ||
         std::ranges::find(model.dimensions, dimensions) != model.dimensions.end();
}

/// "between 1 and 1024, …" or "one of 64, 128, …".
std::string allowed_dimensions(const ServedModel& model) {
  const std::string all = std::to_string(model.embedding_size);
  if (model.dimensions.empty()) {
    return "between 1 and " + all + ", the length of this model's embeddings";
  }
  std::string list;
  for (const size_t each : model.dimensions)
    if (each != model.embedding_size) list += std::to_string(each) + ", ";
  return "one of " + list + all + ": the lengths that this model's embeddings can be cut to";
}

/// Of the documents behind `queries` (one for all, or one for each) in `pooled`, their cosines with
/// their query.
std::vector<double> cosines(const ServedModel& model,
                            const std::vector<scheduler::HiddenStates>& pooled, size_t queries) {
  std::vector<std::vector<float>> embeddings;
  for (const auto& hidden : pooled) embeddings.push_back(model.embed(hidden, std::nullopt, true));
  std::vector<double> cosines;
  for (size_t d = queries; d < embeddings.size(); ++d) {
    const auto& query = embeddings[queries == 1 ? 0 : d - queries];
    const double cosine =
        std::inner_product(query.begin(), query.end(), embeddings[d].begin(), 0.0);
    cosines.push_back(std::isfinite(cosine) ? std::clamp(cosine, -1.0, 1.0) : cosine);
  }
  return cosines;
}

/// Of the texts in an answer, twice while it grows. What JSON writes in more bytes took as many in
/// the request, and is counted there.
size_t returned_text_bytes(const EmbeddingRequest& request) {
  size_t bytes = 0;
  if (request.returns_texts)
    for (const auto& input : request.inputs)
      if (const auto* const text = std::get_if<std::string>(&input)) bytes += text->size();
  return 2 * bytes;
}

/// Of the answer's text, twice while it grows.
size_t score_text_bytes(const ScoreRequest& request) {
  size_t bytes = kScoreTextBytes * request.documents.size();
  if (request.returns_documents)
    for (const auto& document : request.documents) bytes += document.size();
  return 2 * bytes;
}

ApiError too_many(const std::string& param, size_t inputs, size_t inputs_max) {
  return {ErrorKind::kInvalidRequest,
          "`" + param + "` has " + std::to_string(inputs) + " entries; at most " +
              std::to_string(inputs_max) + " are allowed in one request",
          param,
          "too_many_inputs",
          {}};
}

}  // namespace

std::string EmbeddingRequest::input_name(size_t index) const {
  if (single) return field;
  if (first_field.empty()) return field + "[" + std::to_string(index) + "]";
  return index == 0 ? first_field : field + "[" + std::to_string(index - 1) + "]";
}

float relevance(double score, ScoreScale scale) {
  if (scale == ScoreScale::kLogit) return static_cast<float>(1.0 / (1.0 + std::exp(-score)));
  return static_cast<float>(std::clamp((1.0 + score) / 2.0, 0.0, 1.0));
}

std::vector<RankedDocument> best_first(const std::vector<double>& logits,
                                       std::optional<size_t> top_n) {
  std::vector<RankedDocument> ranked;
  ranked.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) ranked.push_back({i, logits[i]});
  // Stable: equal ones stay in the order of their indices.
  std::ranges::stable_sort(ranked, std::greater<>(), &RankedDocument::logit);
  if (top_n && *top_n < ranked.size()) ranked.resize(*top_n);
  return ranked;
}

InferenceService::InferenceService(ServedModel model, scheduler::Scheduler& scheduler,
                                   std::shared_ptr<TokenizerThreads> tokenizer_threads,
                                   const RequestLimits& limits)
    : model_(std::move(model)),
      scheduler_(scheduler),
      limits_(limits),
      tokenizer_threads_(tokenizer_threads ? std::move(tokenizer_threads)
                                           : std::make_shared<TokenizerThreads>(1)) {
  const size_t suffix = model_.tokenizer->suffix_tokens().size();
  const size_t prefix = model_.tokenizer->prefix_tokens().size();
  if (model_.max_input_tokens <= prefix + suffix) {
    throw std::runtime_error("inputs of at most " + std::to_string(model_.max_input_tokens) +
                             " tokens leave no room for text beside the model's special tokens; "
                             "raise --max-input-tokens");
  }
}

/// The steps that all requests have in common: inputs → ids → hidden states.
class InferenceService::Run {
 public:
  Run(const InferenceService& service, const Caller& caller, const std::string& field,
      RequestReport& report)
      : service_(service),
        field_(field),
        report_(report),
        attempt_(service.model_, service.scheduler_, caller) {}

  std::optional<ApiError> admit(size_t inputs) {
    report_.inputs = inputs;
    if (inputs <= service_.limits_.inputs) return std::nullopt;
    return too_many(field_, inputs, service_.limits_.inputs);
  }

  /// `encode(each_input, budget)` gives the ids.
  template <typename Encode>
  std::optional<ApiError> tokenize(const Encode& encode) {
    const size_t most = service_.scheduler_.submission_tokens_max();
    const size_t allowed = service_.limits_.tokens;
    TokenBudget budget(allowed == 0 ? most : std::min(allowed, most), field_);
    auto sequences =
        on_tokenizer_threads([&](const EachInput& each) { return encode(each, budget); });
    if (!sequences) return std::move(sequences.error());
    sequences_ = std::move(*sequences);
    report_.tokens = count_tokens(sequences_);
    return std::nullopt;
  }

  std::optional<ApiError> take_inputs(const EmbeddingRequest& request) {
    if (!service_.model_.can_embed()) return cannot_embed(service_.model_);
    if (auto error = admit(request.inputs.size())) return error;
    for (const auto& input : request.inputs)
      if (const auto* const text = std::get_if<std::string>(&input))
        report_.characters += count_characters(*text);
    return tokenize([&](const EachInput& each, TokenBudget& budget) {
      return embedding_token_ids(service_.model_, request, each, budget);
    });
  }

  /// What `work(each_input)` gives, done on the tokenizer threads.
  template <typename Work>
  auto on_tokenizer_threads(const Work& work) {
    const ScopedTimer timer(report_.tokenize_seconds);
    return work(each_input(*service_.tokenizer_threads_, attempt_));
  }

  /// Memory for an answer of `values` numbers and its text.
  std::optional<ApiError> reserve(size_t values, size_t text_bytes, bool wants_trie) const {
    const size_t trie = wants_trie ? kTrieBytesPerToken * report_.tokens : 0;
    return attempt_.reserve(sizeof(float) * values + text_bytes + trie);
  }
  std::optional<ApiError> reserve_bytes(size_t bytes) const { return attempt_.reserve(bytes); }
  size_t sequences() const { return sequences_.size(); }

  RequestTrie trie() const { return request_trie(sequences_, *service_.model_.tokenizer); }

  Result<scheduler::Completed> compute(scheduler::WantedRows wanted) {
    return server::compute(service_.scheduler_, service_.model_, std::move(sequences_), wanted,
                           field_, attempt_, report_);
  }

 private:
  const InferenceService& service_;
  const std::string& field_;
  RequestReport& report_;
  Attempt attempt_;
  std::vector<TokenIds> sequences_;
};

Result<EmbeddingAnswer> InferenceService::embed(const EmbeddingRequest& request,
                                                const Caller& caller, RequestReport& report) const {
  if (request.dimensions && !has_dimensions(model_, *request.dimensions)) {
    return tl::unexpected(ApiError{
        ErrorKind::kInvalidRequest,
        "`" + std::string(request.dimensions_field) + "` must be " + allowed_dimensions(model_),
        request.dimensions_field,
        {},
        {}});
  }
  Run run(*this, caller, request.field, report);
  if (auto error = run.take_inputs(request)) return tl::unexpected(std::move(*error));
  const size_t values = run.sequences() * model_.embedding_size;
  if (auto error = run.reserve(run.sequences() * model_.hidden_size + values,
                               request.text_bytes_per_value * values + returned_text_bytes(request),
                               request.wants_trie))
    return tl::unexpected(std::move(*error));

  EmbeddingAnswer answer;
  if (request.wants_trie) answer.trie = run.trie();
  const auto completed = run.compute(model_.pooled);
  if (!completed) return tl::unexpected(completed.error());
  answer.embeddings.reserve(completed->sequences.size());
  for (const auto& hidden : completed->sequences)
    answer.embeddings.push_back(model_.embed(hidden, request.dimensions, request.normalize));
  return answer;
}

Result<TokenEmbeddingAnswer> InferenceService::embed_tokens(const EmbeddingRequest& request,
                                                            const Caller& caller,
                                                            RequestReport& report) const {
  Run run(*this, caller, request.field, report);
  if (auto error = run.take_inputs(request)) return tl::unexpected(std::move(*error));
  const size_t most = kTokenEmbeddingValuesMax / model_.hidden_size;
  if (report.tokens > most) {
    return tl::unexpected(
        too_many_tokens(request.field, most, "are embedded one by one in one request"));
  }
  const size_t values = report.tokens * model_.hidden_size;
  if (auto error = run.reserve(values, request.text_bytes_per_value * values, false))
    return tl::unexpected(std::move(*error));
  auto completed = run.compute(scheduler::WantedRows::kAll);
  if (!completed) return tl::unexpected(std::move(completed.error()));
  return TokenEmbeddingAnswer{std::move(completed->sequences), model_.hidden_size};
}

Result<ScoreAnswer> InferenceService::score(const ScoreRequest& request, const Caller& caller,
                                            RequestReport& report) const {
  if (!model_.can_rerank()) {
    return tl::unexpected(cannot_rerank(model_, model_.cannot_rerank));
  }
  const bool by_template = model_.rerank_prompt.has_value();
  if (by_template && model_.max_input_tokens <= model_.rerank_prompt->fixed_tokens()) {
    return tl::unexpected(
        cannot_rerank(model_, "--max-input-tokens leaves no room beside its template"));
  }
  Run run(*this, caller, request.document_field, report);
  if (auto error = run.admit(request.documents.size())) return tl::unexpected(std::move(*error));
  for (const auto* const texts : {&request.queries, &request.documents})
    for (const auto& text : *texts) report.characters += count_characters(text);
  auto error = run.tokenize([&](const EachInput& each, TokenBudget& budget) {
    return by_template ? score_token_ids(model_, request, each, budget)
                       : similarity_token_ids(model_, request, each, budget);
  });
  if (error) return tl::unexpected(std::move(*error));
  const size_t values = run.sequences() * (model_.hidden_size + model_.embedding_size);
  error = run.reserve(values, score_text_bytes(request), request.wants_trie);
  if (error) return tl::unexpected(std::move(*error));

  ScoreAnswer answer;
  if (request.wants_trie) answer.trie = run.trie();
  const auto completed = run.compute(by_template ? scheduler::WantedRows::kLast : model_.pooled);
  if (!completed) return tl::unexpected(completed.error());
  if (by_template) {
    for (const auto& hidden : completed->sequences)
      answer.logits.push_back(model_.relevance_logit(hidden));
  } else {
    answer.scale = ScoreScale::kCosine;
    answer.logits = cosines(model_, completed->sequences, request.queries.size());
  }
  // What is not finite cannot be ranked: NaN has no place in an order.
  if (!std::ranges::all_of(answer.logits, [](double score) { return std::isfinite(score); })) {
    return tl::unexpected(ApiError{
        ErrorKind::kInternal, "the model gave a score that is not a finite number", {}, {}, {}});
  }
  return answer;
}

Result<std::vector<TokenizedText>> InferenceService::tokenize(const TokenizeRequest& request,
                                                              const Caller& caller,
                                                              RequestReport& report) const {
  static const std::string field = "inputs";
  Run run(*this, caller, field, report);
  if (auto error = run.admit(request.texts.size())) return tl::unexpected(std::move(*error));
  size_t bytes = 0;
  for (const auto& text : request.texts) bytes += text.size();
  bytes = std::min(bytes, kTokenizedBytesMax);
  if (auto error = run.reserve_bytes(kShownBytesPerByte * bytes))
    return tl::unexpected(std::move(*error));
  auto tokenized = run.on_tokenizer_threads(
      [&](const EachInput& each) { return tokenize_texts(model_, request, each); });
  if (!tokenized) return tokenized;
  for (const auto& text : *tokenized) {
    report.characters += count_characters(text.text);
    report.tokens += text.tokens.size();
  }
  return tokenized;
}

Result<std::vector<std::string>> InferenceService::decode(const DecodeRequest& request,
                                                          const Caller& caller,
                                                          RequestReport& report) const {
  static const std::string field = "ids";
  Run run(*this, caller, field, report);
  if (auto error = run.admit(request.ids.size())) return tl::unexpected(std::move(*error));
  report.tokens = count_tokens(request.ids);
  const size_t bytes = std::min(kDecodedBytesPerId * report.tokens, kDecodedBytesMax);
  if (auto error = run.reserve_bytes(kShownBytesPerDecodedByte * bytes))
    return tl::unexpected(std::move(*error));
  return run.on_tokenizer_threads(
      [&](const EachInput& each) { return decode_ids(model_, request, each); });
}

}  // namespace espalier::server
