#include "server/api_error.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

namespace espalier::server {
namespace {

struct ErrorRow {
  ErrorKind kind;
  int status;
  const char* type;  // OpenAI's word for the class of error
};

/// The one table from what went wrong to HTTP. Clients' libraries retry 408, 409, 429 and 5xx:
/// nothing that a client did wrong may have one of those.
constexpr std::array kErrorTable{
    ErrorRow{ErrorKind::kInvalidRequest, 400, "invalid_request_error"},
    ErrorRow{ErrorKind::kUnauthorized, 401, "authentication_error"},
    ErrorRow{ErrorKind::kForbidden, 403, "permission_error"},
    ErrorRow{ErrorKind::kNotFound, 404, "not_found_error"},
    ErrorRow{ErrorKind::kModelNotFound, 404, "not_found_error"},
    ErrorRow{ErrorKind::kMethodNotAllowed, 405, "invalid_request_error"},
    ErrorRow{ErrorKind::kPayloadTooLarge, 413, "invalid_request_error"},
    ErrorRow{ErrorKind::kUnsupportedMediaType, 415, "invalid_request_error"},
    ErrorRow{ErrorKind::kHeaderTooLarge, 431, "invalid_request_error"},
    ErrorRow{ErrorKind::kOverloaded, 429, "rate_limit_error"},
    ErrorRow{ErrorKind::kInternal, 500, "server_error"},
    ErrorRow{ErrorKind::kLoading, 503, "server_error"},
    ErrorRow{ErrorKind::kShuttingDown, 503, "server_error"},
    ErrorRow{ErrorKind::kDeadlineExceeded, 504, "server_error"},
    ErrorRow{ErrorKind::kClientGone, 499, "client_closed_request"},
};

const ErrorRow& row_of(ErrorKind kind) {
  const auto* row = std::ranges::find(kErrorTable, kind, &ErrorRow::kind);
  if (row == kErrorTable.end())
    std::abort();  // an enumerator without a row: a programmer's mistake
  return *row;
}

ErrorKind kind_of(scheduler::FailureKind kind) {
  switch (kind) {
    case scheduler::FailureKind::kNeverFits:
      return ErrorKind::kInvalidRequest;
    case scheduler::FailureKind::kQueueFull:
      return ErrorKind::kOverloaded;
    case scheduler::FailureKind::kShuttingDown:
      return ErrorKind::kShuttingDown;
    case scheduler::FailureKind::kDeadline:
      return ErrorKind::kDeadlineExceeded;
    case scheduler::FailureKind::kCancelled:
      return ErrorKind::kClientGone;
    case scheduler::FailureKind::kCompute:
      return ErrorKind::kInternal;
  }
  return ErrorKind::kInternal;
}

nlohmann::json string_or_null(const std::string& text) {
  return text.empty() ? nlohmann::json(nullptr) : nlohmann::json(text);
}

}  // namespace

int http_status(ErrorKind kind) { return row_of(kind).status; }

std::string error_body(const ApiError& error) {
  // Ordered, so that the message comes first for people who read it in a terminal.
  const nlohmann::ordered_json body = {
      {"error",
       {{"message", error.message},
        {"type", row_of(error.kind).type},
        {"param", string_or_null(error.param)},
        {"code", string_or_null(error.code)}}},
      {"message", error.message},
      {"detail", error.message},
  };
  // A message may quote what a client sent, cut anywhere.
  return body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

ApiError from_failure(const scheduler::Failure& failure) {
  ApiError error;
  error.kind = kind_of(failure.kind);
  error.message = failure.message;
  error.retry_after = failure.retry_after;
  if (failure.kind == scheduler::FailureKind::kNeverFits) error.code = kTooLargeCode;
  return error;
}

}  // namespace espalier::server
