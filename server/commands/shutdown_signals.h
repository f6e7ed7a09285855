// SIGTERM and SIGINT, taken by one thread instead of interrupting all: the first starts an orderly
// shutdown, the second ends the process at once. SIGHUP, if wanted, reads files again.
//
// Thread contract: construct before any other thread is started, so that all of them inherit the
// mask.
#pragma once

#include <functional>
#include <mutex>
#include <thread>

namespace espalier::commands {

class ShutdownSignals {
 public:
  /// Until on_signal() is called a signal ends the process at once (nothing has been accepted yet).
  /// With `takes_hangup` SIGHUP no longer ends the process, but does what on_hangup() says, if
  /// anything.
  explicit ShutdownSignals(bool takes_hangup = false);
  /// Calls finish().
  ~ShutdownSignals();
  ShutdownSignals(const ShutdownSignals&) = delete;
  ShutdownSignals& operator=(const ShutdownSignals&) = delete;

  /// `shut_down` runs once, on a thread of its own, when the first signal arrives. Call once.
  void on_signal(std::function<void()> shut_down);

  /// `reload` runs at every SIGHUP, never twice at once; it must not throw.
  void on_hangup(std::function<void()> reload);

  /// Waits for a `shut_down` that has started and takes no signals any more. Call it before what
  /// `shut_down` uses goes away.
  void finish();

 private:
  void wait_for_signals();

  const bool takes_hangup_;
  std::mutex mutex_;
  std::function<void()> reload_;     // guarded by mutex_
  std::function<void()> shut_down_;  // guarded by mutex_
  std::thread shut_down_thread_;     // started and joined by waiter_
  std::thread waiter_;
};

}  // namespace espalier::commands
