// Threads that handle requests, one connection at a time: started when they are needed, at most a
// given number.
//
// Thread contract: handle() from any thread; shut_down() once, after the last handle().
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "server/http/connection.h"

namespace espalier::server {

class RequestThreads {
 public:
  /// Must not throw.
  using Handler = std::function<void(std::unique_ptr<Connection>)>;

  /// Starts the first thread; throws std::system_error if the system allows none.
  RequestThreads(size_t threads_max, Handler handler);
  ~RequestThreads() { shut_down(); }
  RequestThreads(const RequestThreads&) = delete;
  RequestThreads& operator=(const RequestThreads&) = delete;

  /// Hands `connection` to a thread that is free, or to the next one that becomes free.
  void handle(std::unique_ptr<Connection> connection);
  /// Waits for every connection that was handed over.
  void shut_down();

 private:
  void work();

  const size_t threads_max_;
  const Handler handler_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Connection>> waiting_;
  std::vector<std::thread> threads_;
  size_t idle_ = 0;
  bool done_ = false;
};

}  // namespace espalier::server
