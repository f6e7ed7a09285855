// What a server answers while it loads its models: that it does. Probes and metrics beside it are
// admin_routes() with a context that has no scheduler yet.
//
// Thread contract: functions without state.
#pragma once

#include <vector>

#include "server/http/http_server.h"

namespace espalier::server {

/// GET and POST of every path: 503 with code `model_loading` and Retry-After, in the form that the
/// clients of the path read, before a body is read.
std::vector<Route> loading_routes();

}  // namespace espalier::server
