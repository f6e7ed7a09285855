// An HttpServer on a free port with routes to test it by.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/http/http_server.h"

namespace espalier::server {

/// Options for tests: little memory, short patience.
HttpServerOptions test_options();

/// Routes: POST /echo gives the body back; so does POST /own-form, which has its own form of
/// errors; POST /wait answers when release() was called, or 499 once its client has gone; POST
/// /guarded says who asks, if it is let in; GET /health; GET /throw throws; POST /large answers with 16 MiB.
class RunningServer {
 public:
  explicit RunningServer(HttpServerOptions options = test_options());
  ~RunningServer();

  uint16_t port() const { return port_; }
  HttpServer& server() { return server_; }

  /// Requests that are in POST /wait; waits until there are `count`.
  void await_waiting(size_t count);
  /// Lets every request in POST /wait go.
  void release();
  /// Whether serve() returns within `patience`.
  bool returns(std::chrono::milliseconds patience = std::chrono::seconds(20));

  /// "/route status" of the requests that have been answered, once there are `count`.
  std::vector<std::string> observed(size_t count);

 private:
  std::vector<Route> routes();
  HttpResponse wait_for_release(const HttpRequest& request);

  std::mutex mutex_;
  std::condition_variable changed_;
  size_t waiting_ = 0;
  bool released_ = false;
  bool returned_ = false;
  std::vector<std::string> observed_;
  HttpServer server_;
  uint16_t port_;
  std::thread thread_;
};

}  // namespace espalier::server
