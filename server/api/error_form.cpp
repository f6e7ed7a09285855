#include "server/api/error_form.h"

#include <nlohmann/json.hpp>

#include "server/error_response.h"

namespace espalier::server {
namespace {

struct TeiError {
  int status;
  const char* type;
};

/// text-embeddings-inference's table of errors. What it has no word for keeps its own status.
TeiError tei_error(const ApiError& error) {
  switch (error.kind) {
    case ErrorKind::kInvalidRequest:
      if (error.code == "empty_input") return {400, "Empty"};
      if (error.code == "context_length_exceeded" || error.code == "too_many_inputs" ||
          error.code == kTooLargeCode) {
        return {413, "Validation"};
      }
      return {422, "Validation"};
    case ErrorKind::kPayloadTooLarge:
      return {413, "Validation"};
    case ErrorKind::kInternal:
      return {424, "Backend"};
    case ErrorKind::kOverloaded:
      return {429, "Overloaded"};
    case ErrorKind::kLoading:
    case ErrorKind::kShuttingDown:
      return {503, "Unhealthy"};
    case ErrorKind::kUnauthorized:
      return {401, "Unauthorized"};
    case ErrorKind::kDeadlineExceeded:
      return {504, "Timeout"};
    default:
      return {http_status(error.kind), "Validation"};
  }
}

}  // namespace

HttpResponse error_response(const ApiError& error, ErrorForm form) {
  HttpResponse response = error_response(error);
  if (form == ErrorForm::kOpenAi) return response;
  const auto [status, type] = tei_error(error);
  response.status = status;
  const nlohmann::ordered_json body = {{"error", error.message}, {"error_type", type}};
  response.body = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return response;
}

}  // namespace espalier::server
