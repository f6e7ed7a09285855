#include "hub/retries.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <thread>

namespace espalier::hub {
namespace {

using namespace std::chrono_literals;
using Milliseconds = std::chrono::milliseconds;

constexpr Milliseconds kFirstWait = 500ms;
constexpr Milliseconds kWaitMax = 8s;
constexpr Milliseconds kAskedWaitMax = 60s;
constexpr Milliseconds kCancelPeriod = 100ms;
/// A connection that breaks after every few bytes must not keep us for ever.
constexpr size_t kAllFailuresMax = 200;

std::string seconds_text(Milliseconds wait) {
  const auto tenths = (wait.count() + 99) / 100;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

}  // namespace

Retries::Retries(size_t attempts_max, const FetchEvents& events)
    : attempts_max_(attempts_max), events_(events) {}

void Retries::wait(const NoAnswer& failure) {
  if (!failure.worth_retrying || ++failures_ >= attempts_max_ || ++all_failures_ >= kAllFailuresMax)
    throw failure;
  Milliseconds wait = std::min(kWaitMax, kFirstWait * (1 << std::min<size_t>(failures_ - 1, 10)));
  if (failure.retry_after > 0s) wait = std::min<Milliseconds>(failure.retry_after, kAskedWaitMax);
  events_.warning(std::string(failure.what()) + "; trying again in " + seconds_text(wait));
  const auto end = std::chrono::steady_clock::now() + wait;
  while (std::chrono::steady_clock::now() < end) {
    if (events_.cancelled()) throw Cancelled();
    std::this_thread::sleep_for(kCancelPeriod);
  }
}

std::chrono::seconds retry_after(const std::string& header,
                                 std::chrono::system_clock::time_point now) {
  long seconds = 0;
  const char* end = header.data() + header.size();
  const auto parsed = std::from_chars(header.data(), end, seconds);
  if (parsed.ec == std::errc::result_out_of_range) return std::chrono::hours(24);
  if (parsed.ec == std::errc() && parsed.ptr == end)
    return std::chrono::seconds(std::clamp(seconds, 0L, 86400L));
  std::tm date{};
  const char* date_end = ::strptime(header.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &date);
  if (date_end == nullptr || *date_end != '\0') return 0s;
  const auto wait = ::timegm(&date) - std::chrono::system_clock::to_time_t(now);
  return std::chrono::seconds(std::clamp<long>(wait, 0, 86400));
}

}  // namespace espalier::hub
