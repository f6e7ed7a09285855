// OpenAI's routes.
#pragma once

#include <vector>

#include "server/api/api_context.h"
#include "server/http/http_server.h"

namespace espalier::server {

/// POST /v1/embeddings and /embeddings; GET /v1/models and /v1/models/{id}.
std::vector<Route> openai_routes(const ApiContext& context);

}  // namespace espalier::server
