// An ApiError as the HTTP answer that clients read.
#pragma once

#include "server/api_error.h"
#include "server/http/http_server.h"

namespace espalier::server {

/// Status from the table, the JSON body, and `Retry-After` (at least one second) on 429 and 503.
HttpResponse error_response(const ApiError& error);

}  // namespace espalier::server
