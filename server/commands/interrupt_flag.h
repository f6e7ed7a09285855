// SIGINT and SIGTERM as a wish that long work ends by itself, which leaves things in order. A
// second one ends the process as ever.
//
// Thread contract: one at a time, on the main thread. Where signals are blocked (ShutdownSignals)
// nothing changes.
#pragma once

#include <signal.h>

namespace espalier::commands {

class InterruptFlag {
 public:
  InterruptFlag();
  ~InterruptFlag();
  InterruptFlag(const InterruptFlag&) = delete;
  InterruptFlag& operator=(const InterruptFlag&) = delete;

  bool is_set() const;

 private:
  struct sigaction interrupt_before_ {};
  struct sigaction terminate_before_ {};
};

}  // namespace espalier::commands
