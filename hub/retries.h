// Asking again what has not been answered.
//
// Thread contract: one thread.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "hub/fetch_events.h"
#include "hub/hub_error.h"

namespace espalier::hub {

class Retries {
 public:
  /// Of `attempts_max` attempts in a row without success; `events` must outlive this.
  Retries(size_t attempts_max, const FetchEvents& events);

  /// After a failed attempt: says so and waits, longer each time, or as long as the other side
  /// asks, a minute at most. Throws `failure` again if that was the last attempt; Cancelled.
  void wait(const NoAnswer& failure);

  /// Something has come: what follows is a first failure again, up to a bound on all of them.
  void progressed() { failures_ = 0; }

  /// `attempt()`, again and again while it throws NoAnswer.
  template <typename Attempt>
  auto run(const Attempt& attempt) {
    while (true) {
      try {
        return attempt();
      } catch (const NoAnswer& failure) {
        wait(failure);
      }
    }
  }

 private:
  size_t attempts_max_;
  const FetchEvents& events_;
  size_t failures_ = 0;
  size_t all_failures_ = 0;
};

/// Seconds that a Retry-After header asks for, as a number or a date; 0 for one that is neither.
std::chrono::seconds retry_after(const std::string& header,
                                 std::chrono::system_clock::time_point now);

}  // namespace espalier::hub
