// The one pool of compute threads. Libraries are called single-threaded from its tasks.
//
// Thread contract: parallel_for() is called by one thread at a time (the worker, or whoever loads a
// model); that thread takes part in the work.
#pragma once

#include <cstddef>
#include <memory>

namespace espalier::engine {

/// A view of a callable (size_t task, size_t worker): valid while the callable is. Unlike
/// std::function it never allocates.
class TaskBody {
 public:
  template <typename Body>
  TaskBody(const Body& body)  // NOLINT: made from any lambda, on the way into parallel_for()
      : body_(&body), call_([](const void* erased, size_t task, size_t worker) {
          (*static_cast<const Body*>(erased))(task, worker);
        }) {}

  void operator()(size_t task, size_t worker) const { call_(body_, task, worker); }

 private:
  const void* body_;
  void (*call_)(const void*, size_t, size_t);
};

class ThreadPool {
 public:
  /// `threads` >= 1 counts the caller of parallel_for() too: ThreadPool(1) starts no thread.
  explicit ThreadPool(size_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  size_t size() const;

  /// Calls `body(task, worker)` once for each task in [0, tasks), in any order, and returns when
  /// all are done. `worker` in [0, size()) names the thread, for per-thread scratch. The first
  /// exception that a body throws is rethrown here, after the others have finished.
  void parallel_for(size_t tasks, TaskBody body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// CPUs that this process may use: the affinity mask, bounded by the cgroup's CPU quota (v1 and
/// v2), rounded up; at least 1.
size_t usable_cpus();

}  // namespace espalier::engine
