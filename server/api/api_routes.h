// All routes of the API, and those for the operator.
#pragma once

#include <vector>

#include "server/api/api_context.h"
#include "server/http/http_server.h"

namespace espalier::server {

/// The inference routes and GET /stats; with a recorder, GET /debug/timeline, /debug/trie and
/// /debug/trie.svg for those who have an admin's key.
std::vector<Route> api_routes(const ApiContext& context);

/// GET /livez, /readyz, /health and /metrics, for everyone who reaches the port. Without a
/// scheduler in `context` they say that the server loads.
std::vector<Route> admin_routes(const ApiContext& context);

/// With a recorder, the debug routes without a key: for a port that only operators reach.
std::vector<Route> open_debug_routes(const ApiContext& context);

}  // namespace espalier::server
