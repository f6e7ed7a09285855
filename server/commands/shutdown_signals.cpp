#include "server/commands/shutdown_signals.h"

#include <pthread.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdlib>

namespace espalier::commands {
namespace {

/// Wakes the waiting thread for good; sent only by finish(), to this thread alone.
const int kStopWaiting = SIGRTMIN;

sigset_t taken_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, kStopWaiting}) sigaddset(&set, signal);
  return set;
}

}  // namespace

ShutdownSignals::ShutdownSignals() {
  const sigset_t set = taken_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  // A shell starts background jobs with SIGINT ignored; an ignored signal may never be delivered.
  for (const int ignored : {SIGTERM, SIGINT}) signal(ignored, SIG_DFL);
  waiter_ = std::thread([this] { wait_for_signals(); });
}

ShutdownSignals::~ShutdownSignals() { finish(); }

void ShutdownSignals::finish() {
  if (!waiter_.joinable()) return;
  pthread_kill(waiter_.native_handle(), kStopWaiting);
  waiter_.join();
}

void ShutdownSignals::on_signal(std::function<void()> shut_down) {
  const std::lock_guard lock(mutex_);
  shut_down_ = std::move(shut_down);
}

void ShutdownSignals::wait_for_signals() {
  const sigset_t set = taken_signals();
  while (true) {
    int signal = 0;
    if (sigwait(&set, &signal) != 0) continue;
    if (signal == kStopWaiting) break;
    const std::lock_guard lock(mutex_);
    if (!shut_down_ || shut_down_thread_.joinable()) {
      spdlog::warn("{}: ending at once", signal == SIGINT ? "SIGINT" : "SIGTERM");
      std::_Exit(128 + signal);
    }
    spdlog::info("{}: finishing accepted requests; a second signal ends at once",
                 signal == SIGINT ? "SIGINT" : "SIGTERM");
    shut_down_thread_ = std::thread(shut_down_);
  }
  if (shut_down_thread_.joinable()) shut_down_thread_.join();
}

}  // namespace espalier::commands
