#include "server/commands/interrupt_flag.h"

#include <atomic>

namespace espalier::commands {
namespace {

std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

void remember_signal(int) { interrupted = true; }

void take(int signal, struct sigaction& before) {
  struct sigaction ours {};
  ours.sa_handler = remember_signal;
  ours.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(signal, nullptr, &before);
  // A shell's background jobs ignore SIGINT, and go on to.
  if (before.sa_handler != SIG_IGN) sigaction(signal, &ours, nullptr);
}

}  // namespace

InterruptFlag::InterruptFlag() {
  interrupted = false;
  take(SIGINT, interrupt_before_);
  take(SIGTERM, terminate_before_);
}

InterruptFlag::~InterruptFlag() {
  sigaction(SIGINT, &interrupt_before_, nullptr);
  sigaction(SIGTERM, &terminate_before_, nullptr);
}

bool InterruptFlag::is_set() const { return interrupted; }

}  // namespace espalier::commands
