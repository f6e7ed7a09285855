// Rerank under the paths of Cohere, Jina, vLLM, llama.cpp and text-embeddings-inference, and vLLM's
// score.
#pragma once

#include <vector>

#include "server/api/api_context.h"
#include "server/http/http_server.h"

namespace espalier::server {

/// POST /rerank, /v1/rerank, /v2/rerank, /reranking (one handler), /score and /v1/score.
std::vector<Route> rerank_routes(const ApiContext& context);

}  // namespace espalier::server
