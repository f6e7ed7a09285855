// POST /v1/rerank: JSON in, typed request; typed answer, JSON out.
#pragma once

#include <string>
#include <string_view>

#include "server/service/inference_service.h"

namespace espalier::server {

/// Documents of one request, as many as an embedding request may have inputs.
inline constexpr size_t kRerankDocumentsMax = 2048;

/// Checks everything that can be checked without the model: types, ranges, the number of documents.
/// Query and documents may be empty strings; there must be a query and at least one document.
Result<RerankRequest> parse_rerank_request(std::string_view body);

/// {"id":…,"object":"list","model":…,"results":[{"index","relevance_score","document"?}],"usage","meta"}:
/// what Cohere's, Jina's and vLLM's clients read. `request` lends the documents' texts when it
/// asked for them. kInternal if a score is not finite.
Result<std::string> render_rerank_answer(const RerankAnswer& answer, const RerankRequest& request,
                                         std::string_view id, std::string_view model);

}  // namespace espalier::server
