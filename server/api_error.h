// What goes wrong with a request, as a value, and the one closed table from it to HTTP.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "scheduler/request.h"

namespace espalier::server {

enum class ErrorKind : uint8_t {
  kInvalidRequest,        // 400: malformed or out of range; `param` names the field
  kUnauthorized,          // 401, with WWW-Authenticate
  kForbidden,             // 403: a key, but not one for this
  kNotFound,              // 404: no such route
  kModelNotFound,         // 404: no such model
  kMethodNotAllowed,      // 405
  kPayloadTooLarge,       // 413
  kUnsupportedMediaType,  // 415
  kHeaderTooLarge,        // 431: the head of the request is
  kOverloaded,            // 429, with Retry-After
  kInternal,              // 500
  kLoading,               // 503, with Retry-After: the models are not there yet
  kShuttingDown,          // 503, with Retry-After
  kDeadlineExceeded,      // 504
  kClientGone,            // nobody left to answer: 499 in logs and metrics
};

struct ApiError {
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;  // a sentence: what is wrong and how to mend it
  std::string param;    // the request's field at fault ("input[3]"), or empty
  std::string code;     // a stable word for programs ("context_length_exceeded"), or empty
  std::chrono::seconds retry_after{0};
};

/// `code` of requests that are larger than anything that may wait.
inline constexpr char kTooLargeCode[] = "request_too_large";

template <typename T>
using Result = tl::expected<T, ApiError>;

/// Status code of `kind`, from the table.
int http_status(ErrorKind kind);
/// {"error":{"message","type","param","code"},"message":message,"detail":message}, as OpenAI's,
/// Cohere's and LangChain's clients read it; empty param and code are null.
std::string error_body(const ApiError& error);
/// The scheduler's failure as the API's.
ApiError from_failure(const scheduler::Failure& failure);

}  // namespace espalier::server
