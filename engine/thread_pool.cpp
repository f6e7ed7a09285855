#include "engine/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/cpu_quota.h"

namespace espalier::engine {
namespace {

/// One parallel_for(): the threads take task numbers from `next` until there are none left.
struct Job {
  size_t tasks = 0;
  const TaskBody* body = nullptr;
  std::atomic<size_t> next{0};
  std::mutex error_mutex;
  std::exception_ptr first_error;

  void work(size_t worker) {
    for (size_t task = next.fetch_add(1); task < tasks; task = next.fetch_add(1)) {
      try {
        (*body)(task, worker);
      } catch (...) {
        const std::lock_guard lock(error_mutex);
        if (!first_error) first_error = std::current_exception();
      }
    }
  }
};

/// How long a thread looks for work before it sleeps. A forward pass is hundreds of jobs with
/// microseconds between them, and waking a thread takes as long as the short ones among them.
constexpr std::chrono::microseconds kSpinTime{30};

/// True as soon as `condition()` holds, false when it has not for kSpinTime.
template <typename Condition>
bool spin_until(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + kSpinTime;
  constexpr int kLooksAtAClock = 64;
  do {
    for (int i = 0; i < kLooksAtAClock; ++i) {
      if (condition()) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace

struct ThreadPool::Impl {
  std::mutex mutex;
  std::condition_variable job_ready;
  std::condition_variable job_left;
  // All changed under mutex; the atomic ones are also watched without it.
  Job* job = nullptr;                  // open to threads that want to join; null if there is none
  std::atomic<size_t> generation = 0;  // counts jobs, so that no thread joins one twice
  std::atomic<size_t> inside = 0;      // threads that have joined and not left
  bool in_use = false;                 // by a parallel_for()
  bool stopping = false;
  std::vector<std::thread> threads;

  void serve(size_t worker) {
    size_t served = 0;
    while (true) {
      spin_until([&] { return generation != served; });
      std::unique_lock lock(mutex);
      job_ready.wait(lock, [&] { return stopping || (job != nullptr && generation != served); });
      if (stopping) return;
      served = generation;
      Job* const current = job;
      ++inside;
      lock.unlock();
      current->work(worker);
      lock.lock();
      if (--inside == 0) job_left.notify_one();
    }
  }

  void open(Job& opened) {
    {
      const std::lock_guard lock(mutex);
      if (in_use) {
        std::fprintf(stderr, "ThreadPool::parallel_for(%zu tasks) called during another one\n",
                     opened.tasks);
        std::abort();
      }
      in_use = true;
      job = &opened;
      ++generation;
    }
    job_ready.notify_all();
  }

  /// Waits for the threads that have joined, not for those that have not woken up yet: on a busy
  /// machine that can take milliseconds, and there are no tasks left for them.
  void close() {
    {
      const std::lock_guard lock(mutex);
      job = nullptr;
    }
    spin_until([&] { return inside == 0; });
    std::unique_lock lock(mutex);
    job_left.wait(lock, [&] { return inside == 0; });
    in_use = false;
  }

  void stop() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    job_ready.notify_all();
    for (std::thread& thread : threads) thread.join();
  }
};

ThreadPool::ThreadPool(size_t threads) : impl_(std::make_unique<Impl>()) {
  try {
    for (size_t worker = 1; worker < threads; ++worker) {
      impl_->threads.emplace_back([impl = impl_.get(), worker] { impl->serve(worker); });
    }
  } catch (...) {
    impl_->stop();  // the system refused another thread
    throw;
  }
}

ThreadPool::~ThreadPool() { impl_->stop(); }

size_t ThreadPool::size() const { return impl_->threads.size() + 1; }

void ThreadPool::parallel_for(size_t tasks, TaskBody body) {
  Job job;
  job.tasks = tasks;
  job.body = &body;
  if (tasks > 1 && !impl_->threads.empty()) {  // waking threads costs microseconds
    impl_->open(job);
    job.work(0);
    impl_->close();
  } else {
    job.work(0);
  }
  if (job.first_error) std::rethrow_exception(job.first_error);
}

size_t usable_cpus() {
  size_t in_mask = std::max<size_t>(1, std::thread::hardware_concurrency());
  // The mask of a machine with more than 1 024 CPUs needs a larger set: grow it until it fits.
  for (int capacity = 1024; capacity <= 1 << 20; capacity *= 2) {
    const size_t bytes = CPU_ALLOC_SIZE(capacity);
    cpu_set_t* const mask = CPU_ALLOC(capacity);
    if (mask == nullptr) break;
    CPU_ZERO_S(bytes, mask);
    const bool read = sched_getaffinity(0, bytes, mask) == 0;
    if (read) in_mask = static_cast<size_t>(CPU_COUNT_S(bytes, mask));
    CPU_FREE(mask);
    if (read) break;
  }
  const double quota = cgroup_cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup");
  if (quota < static_cast<double>(in_mask)) in_mask = static_cast<size_t>(std::ceil(quota));
  return std::max<size_t>(1, in_mask);
}

}  // namespace espalier::engine
