// All routes of the API.
#pragma once

#include <vector>

#include "server/api/api_context.h"
#include "server/http/http_server.h"

namespace espalier::server {

/// The inference routes, GET /stats, /health and /metrics, and, with a recorder, GET
/// /debug/timeline, /debug/trie and /debug/trie.svg.
std::vector<Route> api_routes(const ApiContext& context);

}  // namespace espalier::server
