// An ApiError as the HTTP answer that clients read.
#pragma once

#include "server/api_error.h"
#include "server/http/http_server.h"

namespace espalier::server {

/// Status from the table, the JSON body, `Retry-After` (at least one second) on 429
/// and 503, `WWW-Authenticate` on 401.
HttpResponse error_response(const ApiError& error);

}  // namespace espalier::server
