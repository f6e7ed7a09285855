// From the inputs of a request to the token ids that the model sees: prompts, templates,
// truncation.
//
// Thread contract: functions without state; `model` is only read.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "server/inference_service.h"

namespace espalier::server {

/// Asked between inputs; an error ends the tokenizing and becomes the request's.
using Interruption = std::function<std::optional<ApiError>()>;

/// The ids of every input, each at most model.max_input_tokens and never empty.
///
/// A text gets the request's prompt in front: the one of `prompt_name`, "Instruct: …\nQuery:" for
/// an `instruction`, or the model's default. Prompt and text are one string, in which special
/// tokens are recognised, as sentence-transformers does. Token ids are used as sent, without a
/// prompt, and get the end token unless they have it.
Result<std::vector<TokenIds>> embedding_token_ids(const ServedModel& model,
                                                  const EmbeddingRequest& request,
                                                  const Interruption& interruption);

/// The ids of the rerank template for every document. A query that fills the template by itself is
/// an error even with `truncate`: nothing of the documents would be seen.
Result<std::vector<TokenIds>> rerank_token_ids(const ServedModel& model,
                                               const RerankRequest& request,
                                               const Interruption& interruption);

}  // namespace espalier::server
