#include "server/http/request_threads.h"

#include <exception>
#include <utility>

namespace espalier::server {

RequestThreads::RequestThreads(size_t threads_max, Handler handler)
    : threads_max_(threads_max), handler_(std::move(handler)) {
  threads_.emplace_back([this] { work(); });
}

void RequestThreads::handle(std::unique_ptr<Connection> connection) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(connection));
  if (waiting_.size() > idle_ && threads_.size() < threads_max_) {
    try {
      threads_.emplace_back([this] { work(); });
    } catch (const std::exception&) {
      // The system allows no more threads, or has no memory for one: those that there are will come
      // to it.
    }
  }
  changed_.notify_one();
}

void RequestThreads::shut_down() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  for (auto& thread : threads_) thread.join();
  threads_.clear();
}

void RequestThreads::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    changed_.wait(lock, [&] { return done_ || !waiting_.empty(); });
    --idle_;
    if (waiting_.empty()) return;
    auto connection = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    handler_(std::move(connection));
    lock.lock();
  }
}

}  // namespace espalier::server
