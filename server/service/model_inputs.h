// From the inputs of a request to the token ids that the model sees: prompts, templates,
// truncation.
//
// Thread contract: functions without state; `model` is only read.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "server/service/inference_service.h"
#include "server/service/token_budget.h"
#include "server/service/tokenizer_threads.h"

namespace espalier::server {

/// Runs a task for each of `count` inputs, on any threads and in any order; the error of the lowest
/// faulty one, or of what interrupted it.
using EachInput = std::function<std::optional<ApiError>(size_t count, const InputTask& task)>;

/// The ids of every input, each at most model.max_input_tokens and never empty.
///
/// A text gets a prompt in front: the one of `prompt_name` or `input_type`, "Instruct: …\nQuery:"
/// for an `instruction`, or the default. Prompt and text are one string, in which special tokens
/// are recognised, as sentence-transformers does. Token ids are used as sent, without a prompt, and
/// get the end token unless they have it. A prompt that leaves no room for text is an error.
Result<std::vector<TokenIds>> embedding_token_ids(const ServedModel& model,
                                                  const EmbeddingRequest& request,
                                                  const EachInput& each_input, TokenBudget& budget);

/// The text that `options` put before every input of theirs. kInvalidRequest if they contradict
/// each other or name no prompt of the model.
Result<std::string> prompt_text(const ServedModel& model, const InputOptions& options);

/// The ids of the rerank template for every document. A query that fills the template by itself is
/// an error even if it may be cut: nothing of the documents would be seen.
Result<std::vector<TokenIds>> score_token_ids(const ServedModel& model, const ScoreRequest& request,
                                              const EachInput& each_input, TokenBudget& budget);

/// For models that rank by the similarity of embeddings: the ids of the queries, as embedding
/// requests of queries have them, and behind them those of the documents.
Result<std::vector<TokenIds>> similarity_token_ids(const ServedModel& model,
                                                   const ScoreRequest& request,
                                                   const EachInput& each_input,
                                                   TokenBudget& budget);

}  // namespace espalier::server
