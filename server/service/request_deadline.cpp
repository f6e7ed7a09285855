#include "server/service/request_deadline.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace espalier::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Neither a client nor a prediction makes anything wait longer than a day.
constexpr milliseconds kTimeoutMax{86'400'000};
constexpr milliseconds kAutomaticMin{60'000};
constexpr milliseconds kAutomaticUnknown{300'000};
/// How far predictions may be off, and requests of other clients come in between.
constexpr double kAutomaticMargin = 3;

milliseconds automatic_timeout(double predicted_seconds) {
  if (!(predicted_seconds > 0)) return kAutomaticUnknown;
  const double longest = static_cast<double>(kTimeoutMax.count());
  const double ms = std::min(longest, kAutomaticMargin * 1e3 * predicted_seconds);
  return std::max(kAutomaticMin, milliseconds(std::llround(ms)));
}

/// "2.5 s", "300 s", "40 ms".
std::string duration_text(milliseconds duration) {
  const auto ms = duration.count();
  if (ms < 1000) return std::to_string(ms) + " ms";
  const std::string whole = std::to_string(ms / 1000);
  const auto tenths = ms % 1000 / 100;
  return whole + (tenths > 0 ? "." + std::to_string(tenths) : "") + " s";
}

}  // namespace

Result<milliseconds> parse_request_timeout(const std::string& value) {
  int64_t ms = 0;
  const char* const end = value.data() + value.size();
  const auto [stopped, error] = std::from_chars(value.data(), end, ms);
  const bool digits = std::ranges::all_of(value, [](char c) { return c >= '0' && c <= '9'; });
  if (!digits || error != std::errc() || stopped != end || ms < 1 || ms > kTimeoutMax.count()) {
    ApiError invalid;
    invalid.kind = ErrorKind::kInvalidRequest;
    invalid.message = std::string("the header `") + kTimeoutField +
                      "` must be a whole number of milliseconds from 1 to " +
                      std::to_string(kTimeoutMax.count());
    invalid.param = kTimeoutField;
    return tl::unexpected(std::move(invalid));
  }
  return milliseconds(ms);
}

RequestDeadline::RequestDeadline(seconds server_timeout, std::optional<AskedTimeout> asked,
                                 scheduler::Clock::time_point start)
    : timeout_(kAutomaticUnknown), start_(start), at_(start + kAutomaticUnknown) {
  if (server_timeout.count() > 0) {
    source_ = Source::kServer;
    timeout_ = server_timeout;
    at_ = start + server_timeout;
  }
  if (!asked) return;
  const auto asked_at = asked->since + asked->timeout;
  if (source_ == Source::kServer && at_ <= asked_at) return;
  source_ = Source::kAsked;
  timeout_ = asked->timeout;
  at_ = asked_at;
}

void RequestDeadline::expect(double predicted_seconds) {
  if (source_ != Source::kAutomatic) return;
  timeout_ = automatic_timeout(predicted_seconds);
  at_ = start_ + timeout_;
}

ApiError RequestDeadline::error() const {
  ApiError error;
  error.kind = ErrorKind::kDeadlineExceeded;
  const std::string text = duration_text(timeout_);
  switch (source_) {
    case Source::kAsked:
      error.message = "the request was not done within the " + text + " that its header `" +
                      kTimeoutField + "` gives it; send fewer inputs at once, or a larger number";
      break;
    case Source::kServer:
      error.message = "the request was not done within " + text +
                      ", the most that this server takes; send fewer inputs at once, or try again "
                      "when it is less busy";
      break;
    case Source::kAutomatic:
      error.message = "the request was not done within " + text +
                      ", much longer than was expected when it came; send fewer inputs at once, or "
                      "try again when the server is less busy";
      break;
  }
  return error;
}

}  // namespace espalier::server
