// Until when a request must be done: as its client asked, as the server was told, or by what the
// scheduler predicts.
//
// Thread contract: one thread at a time.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "scheduler/request.h"
#include "server/api_error.h"

namespace espalier::server {

/// The header field by which a client says how long it will wait.
inline constexpr char kTimeoutField[] = "X-Request-Timeout-Ms";

/// How long a client will wait, and from when on.
struct AskedTimeout {
  std::chrono::milliseconds timeout{0};
  scheduler::Clock::time_point since{};
};

/// The value of kTimeoutField: a whole number of milliseconds, 1 … 86 400 000. kInvalidRequest,
/// naming the field, for anything else.
Result<std::chrono::milliseconds> parse_request_timeout(const std::string& value);

class RequestDeadline {
 public:
  /// `server_timeout`, from `start`, bounds what the client asks for; 0: automatic.
  RequestDeadline(std::chrono::seconds server_timeout, std::optional<AskedTimeout> asked,
                  scheduler::Clock::time_point start);

  /// What the scheduler predicts for the request and all that waits before it; 0: nothing is known.
  /// An automatic deadline becomes three times that, at least a minute; five minutes if nothing is
  /// known. Others stay.
  void expect(double predicted_seconds);

  scheduler::Clock::time_point at() const { return at_; }
  /// What a request is told that missed it (kDeadlineExceeded).
  ApiError error() const;

 private:
  enum class Source : uint8_t { kAsked, kServer, kAutomatic };

  Source source_ = Source::kAutomatic;
  std::chrono::milliseconds timeout_{0};
  scheduler::Clock::time_point start_;
  scheduler::Clock::time_point at_;
};

}  // namespace espalier::server
