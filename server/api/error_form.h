// An ApiError as the HTTP answer that a route's clients read.
//
// Thread contract: functions without state.
#pragma once

#include "server/api_error.h"
#include "server/http/http_server.h"

namespace espalier::server {

enum class ErrorForm : uint8_t {
  kOpenAi,  // {"error": {"message", "type", "param", "code"}, …}; see api_error.h
  kTei,     // text-embeddings-inference's {"error": message, "error_type": …} and its statuses
};

HttpResponse error_response(const ApiError& error, ErrorForm form);

}  // namespace espalier::server
