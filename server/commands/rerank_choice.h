// How a model reranks: the template that it is asked with and the head that answers, from the
// options, the model's own files, or what is known of its family.
//
// Thread contract: stateless.
#pragma once

#include <filesystem>

#include "models/model.h"
#include "models/rerank_head.h"
#include "server/commands/model_options.h"
#include "text/rerank_template.h"
#include "text/tokenizer.h"

namespace espalier::commands {

struct RerankChoice {
  text::RerankTemplate rerank;
  models::RerankHead head;
  double scale = 1;  // the head's logit is divided by this before it becomes a score
};

/// Throws std::runtime_error saying why `model` cannot rerank; `files` is where it was loaded from.
RerankChoice choose_reranking(const std::filesystem::path& files, const models::Model& model,
                              const text::Tokenizer& tokenizer, const ModelOptions& own);

/// Whether `own` says how to rerank, whatever the files say.
bool asks_to_rerank(const ModelOptions& own);

}  // namespace espalier::commands
