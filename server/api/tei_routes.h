// The routes of text-embeddings-inference; its rerank is among the rerank routes.
#pragma once

#include <vector>

#include "server/api/api_context.h"
#include "server/http/http_server.h"

namespace espalier::server {

/// POST /embed, /embed_all, /similarity, /tokenize and /decode; GET /info.
std::vector<Route> tei_routes(const ApiContext& context);

}  // namespace espalier::server
