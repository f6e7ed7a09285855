// The page at `/`, and the API's description at `/openapi.json` and, to read, at `/docs`: files out
// of the binary, served to everyone.
#pragma once

#include <vector>

#include "server/http/http_server.h"

namespace espalier::server {

/// GET /, /docs and /page/*. A browser cannot send a key with the address that somebody types, so
/// these take none. They hold no data: what the page shows, its scripts ask the API for, with the
/// key that the visitor types.
std::vector<Route> page_routes();

/// GET /openapi.json, open likewise.
Route openapi_route();

}  // namespace espalier::server
