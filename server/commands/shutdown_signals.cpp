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

sigset_t taken_signals(bool hangup) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, kStopWaiting}) sigaddset(&set, signal);
  if (hangup) sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

ShutdownSignals::ShutdownSignals(bool takes_hangup) : takes_hangup_(takes_hangup) {
  const sigset_t set = taken_signals(takes_hangup_);
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

void ShutdownSignals::on_hangup(std::function<void()> reload) {
  const std::lock_guard lock(mutex_);
  reload_ = std::move(reload);
}

void ShutdownSignals::wait_for_signals() {
  const sigset_t set = taken_signals(takes_hangup_);
  while (true) {
    int signal = 0;
    if (sigwait(&set, &signal) != 0) continue;
    if (signal == kStopWaiting) break;
    const std::lock_guard lock(mutex_);
    if (signal == SIGHUP) {
      if (reload_) {
        reload_();
      } else {
        spdlog::info("SIGHUP: there is no certificate to read again");
      }
      continue;
    }
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
