// Writes lines to a descriptor, such as stderr, whose reader may be slow or stop reading at all: a
// full pipe delays the server once, for a moment, and then costs it lines instead of time.
//
// Thread contract: one thread at a time.
#pragma once

#include <chrono>
#include <string_view>

namespace espalier::server {

class LineWriter {
 public:
  /// Waits up to `patience` for a reader that does not keep up. `descriptor` stays the caller's.
  LineWriter(int descriptor, std::chrono::milliseconds patience)
      : descriptor_(descriptor), patience_(patience) {}

  /// Writes `line`, which ends in '\n'. False if it was lost, wholly or from some byte on. Once one
  /// was lost, the following ones are not waited for, until one can be written again.
  bool write(std::string_view line);

 private:
  using Clock = std::chrono::steady_clock;

  bool write_all(std::string_view bytes, Clock::time_point deadline);
  bool wait_until_writable(Clock::time_point deadline) const;

  int descriptor_;
  std::chrono::milliseconds patience_;
  bool stuck_ = false;  // the last line was lost
  bool torn_ = false;   // … in its middle
};

}  // namespace espalier::server
