// How long one transfer may take: it may neither stall nor crawl.
//
// Thread contract: one owner at a time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace espalier::server {

using SteadyClock = std::chrono::steady_clock;

class TransferClock {
 public:
  explicit TransferClock(std::chrono::seconds stall_max)
      : stall_max_(stall_max), start_(SteadyClock::now()), last_moved_(start_) {}

  void moved(size_t bytes) {
    bytes_ += bytes;
    last_moved_ = SteadyClock::now();
  }
  /// Time left to wait for the next byte; zero when the transfer has failed.
  std::chrono::milliseconds time_left() const {
    const auto stall_end = last_moved_ + stall_max_;
    const auto crawl_end =
        start_ + stall_max_ + std::chrono::seconds(bytes_ / kSlowestBytesPerSecond);
    const auto left = std::min(stall_end, crawl_end) - SteadyClock::now();
    return std::max(std::chrono::milliseconds(0),
                    std::chrono::duration_cast<std::chrono::milliseconds>(left));
  }

 private:
  /// Slower transfers are cut off, after the time that they may stall: at this rate a body of
  /// 32 MiB, or as long an answer, takes a quarter of an hour.
  static constexpr size_t kSlowestBytesPerSecond = size_t{32} << 10U;

  std::chrono::seconds stall_max_;
  SteadyClock::time_point start_;
  SteadyClock::time_point last_moved_;
  size_t bytes_ = 0;
};

}  // namespace espalier::server
