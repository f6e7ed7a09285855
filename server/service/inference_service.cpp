#include "server/service/inference_service.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <utility>

#include "server/service/model_inputs.h"

namespace espalier::server {
namespace {

using scheduler::Clock;

/// How often a waiting request asks whether its client is still there.
constexpr std::chrono::milliseconds kWaitSlice{50};

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
    deadline_.expect(scheduler.predicted_seconds(0));
  }

  const Identity& identity() const { return caller_.identity; }
  RequestDeadline& deadline() { return deadline_; }

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
                                     std::vector<TokenIds> sequences, const char* param,
                                     size_t tokens, Attempt& attempt, StageTimes& times) {
  const auto as_api_error = [&](const scheduler::Failure& failure) {
    if (failure.kind == scheduler::FailureKind::kDeadline)
      return tl::unexpected(attempt.deadline().error());
    ApiError error = from_failure(failure);
    if (error.kind == ErrorKind::kInvalidRequest) error.param = param;
    return tl::unexpected(std::move(error));
  };
  attempt.deadline().expect(scheduler.predicted_seconds(tokens));
  scheduler::Submission submission;
  submission.model = model.scheduler_index;
  submission.tenant = attempt.identity().tenant;
  submission.client = attempt.identity().client;
  submission.weight = attempt.identity().weight;
  submission.deadline = attempt.deadline().at();
  submission.sequences.reserve(sequences.size());
  for (auto& ids : sequences) submission.sequences.push_back({std::move(ids)});

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
  times.queue_seconds = outcome->stats.queue_seconds;
  times.compute_seconds = outcome->stats.compute_seconds;
  return std::move(*outcome);
}

/// Tokenizes a request's inputs on `threads` while anybody wants it.
EachInput each_input(TokenizerThreads& threads, const Attempt& attempt) {
  return [&](size_t count, const InputTask& task) {
    return threads.run(count, task, [&] { return attempt.interrupted(); });
  };
}

std::vector<RankedDocument> best_first(const std::vector<float>& scores,
                                       std::optional<size_t> top_n) {
  std::vector<RankedDocument> ranked;
  ranked.reserve(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) ranked.push_back({i, scores[i]});
  // Stable: equal scores stay in the order of their indices.
  std::ranges::stable_sort(ranked, std::greater<>(), &RankedDocument::relevance_score);
  if (top_n && *top_n < ranked.size()) ranked.resize(*top_n);
  return ranked;
}

}  // namespace

InferenceService::InferenceService(ServedModel model, scheduler::Scheduler& scheduler,
                                   size_t tokenizer_threads)
    : model_(std::move(model)),
      scheduler_(scheduler),
      tokenizer_threads_(std::make_unique<TokenizerThreads>(tokenizer_threads)) {
  const size_t suffix = model_.tokenizer->suffix_tokens().size();
  const size_t prefix = model_.tokenizer->prefix_tokens().size();
  if (model_.max_input_tokens <= prefix + suffix) {
    throw std::runtime_error("inputs of at most " + std::to_string(model_.max_input_tokens) +
                             " tokens leave no room for text beside the model's special tokens; "
                             "raise --max-input-tokens");
  }
}

Result<EmbeddingAnswer> InferenceService::embed(const EmbeddingRequest& request,
                                                const Caller& caller, StageTimes& times) const {
  if (request.dimensions && (*request.dimensions < 1 || *request.dimensions > model_.hidden_size)) {
    return tl::unexpected(ApiError{ErrorKind::kInvalidRequest,
                                   "`dimensions` must be between 1 and " +
                                       std::to_string(model_.hidden_size) +
                                       ", the length of this model's embeddings",
                                   "dimensions",
                                   {},
                                   {}});
  }
  Attempt attempt(model_, scheduler_, caller);
  auto sequences = [&] {
    const ScopedTimer timer(times.tokenize_seconds);
    return embedding_token_ids(model_, request, each_input(*tokenizer_threads_, attempt));
  }();
  if (!sequences) return tl::unexpected(std::move(sequences.error()));

  EmbeddingAnswer answer;
  answer.prompt_tokens = count_tokens(*sequences);
  auto completed = compute(scheduler_, model_, std::move(*sequences), "input", answer.prompt_tokens,
                           attempt, times);
  if (!completed) return tl::unexpected(std::move(completed.error()));
  answer.embeddings.reserve(completed->sequences.size());
  for (const auto& hidden : completed->sequences)
    answer.embeddings.push_back(model_.embed(hidden, request.dimensions));
  return answer;
}

Result<RerankAnswer> InferenceService::rerank(const RerankRequest& request, const Caller& caller,
                                              StageTimes& times) const {
  if (!model_.rerank_prompt || model_.max_input_tokens <= model_.rerank_prompt->fixed_tokens()) {
    return tl::unexpected(ApiError{
        ErrorKind::kInvalidRequest,
        "the model " + model_.name +
            (model_.rerank_prompt
                 ? " cannot rerank: --max-input-tokens leaves no room beside its template"
                 : " cannot rerank: its tokenizer lacks what Qwen3-Reranker's template needs"),
        "model",
        "model_cannot_rerank",
        {}});
  }
  Attempt attempt(model_, scheduler_, caller);
  auto sequences = [&] {
    const ScopedTimer timer(times.tokenize_seconds);
    return rerank_token_ids(model_, request, each_input(*tokenizer_threads_, attempt));
  }();
  if (!sequences) return tl::unexpected(std::move(sequences.error()));

  RerankAnswer answer;
  answer.prompt_tokens = count_tokens(*sequences);
  auto completed = compute(scheduler_, model_, std::move(*sequences), "documents",
                           answer.prompt_tokens, attempt, times);
  if (!completed) return tl::unexpected(std::move(completed.error()));
  std::vector<float> scores;
  scores.reserve(completed->sequences.size());
  for (const auto& hidden : completed->sequences) {
    const float score = model_.relevance(hidden);
    if (!std::isfinite(score)) {  // cannot be ranked: NaN has no place in an order
      return tl::unexpected(ApiError{
          ErrorKind::kInternal, "the model gave a score that is not a finite number", {}, {}, {}});
    }
    scores.push_back(score);
  }
  answer.results = best_first(scores, request.top_n);
  return answer;
}

}  // namespace espalier::server
