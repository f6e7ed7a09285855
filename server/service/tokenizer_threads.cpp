#include "server/service/tokenizer_threads.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

namespace espalier::server {
namespace {

/// How often a waiting request asks whether it is still wanted.
constexpr std::chrono::milliseconds kWaitSlice{50};
/// Steps of `nice` below the threads that compute: a tenth of their share of a busy CPU.
constexpr int kNiceness = 10;
constexpr int kNicenessMax = 19;

/// Of the calling thread alone: on Linux, threads have priorities of their own. Where this is not
/// allowed, tokenizing is as important as computing, which is no reason to fail.
void lower_priority() {
  const auto thread = static_cast<id_t>(::gettid());
  const int niceness = ::getpriority(PRIO_PROCESS, thread);
  ::setpriority(PRIO_PROCESS, thread, std::min(kNicenessMax, niceness + kNiceness));
  ::pthread_setname_np(::pthread_self(), "tokenizer");
}

}  // namespace

/// One caller's tasks. All but `count` and `task` is guarded by mutex_.
struct TokenizerThreads::Job {
  Job(size_t count_in, const InputTask& task_in) : count(count_in), task(task_in) {
    place = node.insert(node.end(), this);
  }

  const size_t count;
  const InputTask& task;
  std::condition_variable ended;
  /// Holds the job's entry of waiting_ while it is not there: moving it to and fro takes no memory.
  std::list<Job*> node;
  std::list<Job*>::iterator place;
  bool queued = false;
  size_t next = 0;
  size_t running = 0;
  size_t failed_index = SIZE_MAX;  // the lowest so far,
  std::optional<ApiError> error;   // and what it returned
  std::exception_ptr exception;    // or threw
};

/// While it lives, threads may work on a job; they do not afterwards, however the scope is left.
class TokenizerThreads::Stay {
 public:
  Stay(TokenizerThreads& threads, Job& job) : threads_(threads), job_(job) { threads_.enter(job_); }
  ~Stay() { threads_.leave(job_); }
  Stay(const Stay&) = delete;
  Stay& operator=(const Stay&) = delete;

 private:
  TokenizerThreads& threads_;
  Job& job_;
};

TokenizerThreads::TokenizerThreads(size_t threads) {
  try {
    for (size_t i = 0; i < std::max<size_t>(1, threads); ++i)
      threads_.emplace_back([this] { work(); });
  } catch (...) {
    shut_down();
    throw;
  }
}

std::optional<ApiError> TokenizerThreads::run(size_t count, const InputTask& task,
                                              const Interruption& interruption) {
  if (auto error = interruption()) return error;
  if (count == 0) return std::nullopt;
  Job job(count, task);
  std::optional<ApiError> interrupted;
  {
    const Stay stay(*this, job);
    interrupted = wait(job, interruption);
  }
  if (interrupted) return interrupted;
  if (job.exception) std::rethrow_exception(job.exception);
  return std::move(job.error);
}

std::optional<ApiError> TokenizerThreads::wait(Job& job, const Interruption& interruption) {
  std::unique_lock lock(mutex_);
  while (!job.ended.wait_for(lock, kWaitSlice, [&] { return !job.queued && job.running == 0; })) {
    lock.unlock();  // it may ask the kernel
    if (auto error = interruption()) return error;
    lock.lock();
  }
  return std::nullopt;
}

void TokenizerThreads::enter(Job& job) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.splice(waiting_.end(), job.node, job.place);
    job.queued = true;
  }
  if (job.count > 1) {
    work_.notify_all();
  } else {
    work_.notify_one();
  }
}

void TokenizerThreads::leave(Job& job) {
  std::unique_lock lock(mutex_);
  withdraw(job);
  job.ended.wait(lock, [&] { return job.running == 0; });
}

void TokenizerThreads::withdraw(Job& job) {
  if (!job.queued) return;
  job.node.splice(job.node.end(), waiting_, job.place);
  job.queued = false;
}

void TokenizerThreads::work() {
  lower_priority();
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [&] { return done_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    run_next(lock);
  }
}

/// One task of the job whose turn it is, which then goes to the end of the line.
void TokenizerThreads::run_next(std::unique_lock<std::mutex>& lock) {
  Job& job = *waiting_.front();
  const size_t index = job.next++;
  ++job.running;
  if (job.next == job.count) {
    withdraw(job);
  } else {
    waiting_.splice(waiting_.end(), waiting_, job.place);
  }

  lock.unlock();
  std::optional<ApiError> error;
  std::exception_ptr exception;
  try {
    error = job.task(index);
  } catch (...) {
    exception = std::current_exception();
  }
  lock.lock();

  // Indices are taken in order: whatever is below this one runs or has run, and may still fail.
  if ((error || exception) && index < job.failed_index) {
    job.failed_index = index;
    job.error = std::move(error);
    job.exception = std::move(exception);
  }
  if (job.failed_index != SIZE_MAX) withdraw(job);
  --job.running;
  // Under the lock: the job may be gone as soon as its caller sees that nothing runs.
  if (!job.queued && job.running == 0) job.ended.notify_one();
}

void TokenizerThreads::shut_down() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  work_.notify_all();
  for (auto& thread : threads_)
    if (thread.joinable()) thread.join();
}

}  // namespace espalier::server
