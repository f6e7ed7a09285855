// Threads that tokenize: few, and of lower priority than computing, so that requests that arrive
// never slow down the one that runs. Requests hand over their inputs one by one and are served in
// turn: one of 2 048 long inputs does not hold up one of a single short one.
//
// Thread contract: run() from any thread, many at once; the destructor when none is inside.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "server/api_error.h"

namespace espalier::server {

/// Work on input `index` of a request; an error ends the request's. May throw.
using InputTask = std::function<std::optional<ApiError>(size_t index)>;
/// Asked now and then while a request is tokenized; an error ends that and becomes the request's.
using Interruption = std::function<std::optional<ApiError>()>;

class TokenizerThreads {
 public:
  /// Starts `threads` (at least one); throws std::system_error if the system allows none.
  explicit TokenizerThreads(size_t threads);
  ~TokenizerThreads() { shut_down(); }
  TokenizerThreads(const TokenizerThreads&) = delete;
  TokenizerThreads& operator=(const TokenizerThreads&) = delete;

  /// Runs `task` for 0 … count - 1, in turn with other callers' tasks and several at once; returns
  /// when none runs any more. What the lowest faulty index returned or threw is returned or
  /// thrown, whichever was done first. An interruption takes effect between tasks.
  std::optional<ApiError> run(size_t count, const InputTask& task,
                              const Interruption& interruption);

 private:
  struct Job;
  class Stay;

  void work();
  void run_next(std::unique_lock<std::mutex>& lock);
  std::optional<ApiError> wait(Job& job, const Interruption& interruption);
  void enter(Job& job);
  void leave(Job& job);
  void withdraw(Job& job);
  void shut_down();

  std::mutex mutex_;
  std::condition_variable work_;
  std::list<Job*> waiting_;  // those with indices that nobody has taken yet, whose turn it is first
  bool done_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace espalier::server
