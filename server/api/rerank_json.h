// The rerank routes: JSON in, typed request; typed answer, JSON out. One body serves Cohere's,
// Jina's and vLLM's clients (`documents`) and text-embeddings-inference's (`texts`).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/service/inference_service.h"

namespace espalier::server {

struct RerankBody {
  ScoreRequest request;
  std::optional<size_t> top_n;  // absent: all
  bool return_documents = false;
  bool tei = false;  // the documents came as `texts`
};

/// Checks everything that can be checked without the model. Query and documents may be empty
/// strings; there must be a query and at least one document. `tei` is set as soon as the body is
/// known to be such a client's, for the form of errors.
Result<RerankBody> parse_rerank_body(std::string_view body, bool& tei);

/// {"id":…,"object":"list","model":…,"results":[{"index","relevance_score","document"?}],"usage","meta"},
/// best first: what Cohere's, Jina's and vLLM's clients read.
std::string render_rerank(const ScoreAnswer& answer, const RerankBody& body, std::string_view id,
                          std::string_view model, size_t prompt_tokens);

/// [{"index","text"?,"score"}], best first: what text-embeddings-inference's clients read.
std::string render_tei_rerank(const ScoreAnswer& answer, const RerankBody& body);

}  // namespace espalier::server
