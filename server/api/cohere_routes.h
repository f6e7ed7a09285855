// Cohere's embed routes; its rerank is among the rerank routes.
#pragma once

#include <vector>

#include "server/api/api_context.h"
#include "server/http/http_server.h"

namespace espalier::server {

/// POST /v1/embed and /v2/embed.
std::vector<Route> cohere_routes(const ApiContext& context);

}  // namespace espalier::server
