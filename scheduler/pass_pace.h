// How a running forward pass gets on: the time it has taken for itself, what is done, and what that
// says about the rest.
//
// Thread contract: none; one thread at a time.
#pragma once

#include <cstddef>

#include "scheduler/clock.h"

namespace espalier::scheduler {

class PassPace {
 public:
  explicit PassPace(Clock::time_point started) : started_(started) {}

  /// The pass has done `steps_done` of `steps` (at least 1) at `now`.
  void reached(size_t steps_done, size_t steps, Clock::time_point now) {
    const double before = own_seconds_;
    own_seconds_ = own_seconds_until(now);
    step_seconds_ = own_seconds_ - before;
    done_ = static_cast<double>(steps_done) / static_cast<double>(steps);
  }
  /// The pass has stood still for `seconds`.
  void stood_still(double seconds) { still_seconds_ += seconds; }

  double own_seconds_until(Clock::time_point now) const {
    return seconds_between(started_, now) - still_seconds_;
  }
  /// The time that the pass took for itself up to where it was last seen.
  double own_seconds() const { return own_seconds_; }
  double still_seconds() const { return still_seconds_; }
  /// What the pass took for itself between the last two points at which it was seen.
  double step_seconds() const { return step_seconds_; }

  /// The rest, if it goes on as it has so far; 0 as long as nothing is done, since nothing is
  /// known.
  double seconds_left() const { return done_ > 0 ? own_seconds_ * (1 - done_) / done_ : 0; }
  /// What a pass over `rows` rows does in a second; 0 as long as that is not known.
  double rows_per_second(size_t rows) const {
    return own_seconds_ > 0 ? static_cast<double>(rows) * done_ / own_seconds_ : 0;
  }

 private:
  Clock::time_point started_;
  double own_seconds_ = 0;
  double step_seconds_ = 0;
  double still_seconds_ = 0;
  double done_ = 0;
};

}  // namespace espalier::scheduler
