// Arithmetic on points in time.
#pragma once

#include <chrono>

#include "scheduler/request.h"

namespace espalier::scheduler {

/// now + timeout, without overflow for a timeout that means "for ever".
inline Clock::time_point saturating_deadline(std::chrono::milliseconds timeout) {
  const Clock::time_point now = Clock::now();
  const auto longest =
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::time_point::max() - now);
  return timeout >= longest ? Clock::time_point::max() : now + timeout;
}

inline double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace espalier::scheduler
