#include "server/error_response.h"

#include <algorithm>

namespace espalier::server {

HttpResponse error_response(const ApiError& error) {
  HttpResponse response;
  response.status = http_status(error.kind);
  response.body = error_body(error);
  if (error.kind == ErrorKind::kOverloaded || error.kind == ErrorKind::kLoading ||
      error.kind == ErrorKind::kShuttingDown) {
    const auto seconds = std::max<std::chrono::seconds::rep>(1, error.retry_after.count());
    response.headers.emplace_back("Retry-After", std::to_string(seconds));
  }
  if (error.kind == ErrorKind::kUnauthorized)
    response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace espalier::server
