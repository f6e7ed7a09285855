// An HTTP server that answers on a thread of its own, so that it can say "loading" meanwhile.
//
// Thread contract: one thread; `http` may be used from others as it allows.
#pragma once

#include <exception>
#include <thread>
#include <vector>

#include "server/http/http_server.h"

namespace espalier::commands {

class ServingThread {
 public:
  /// Answers `routes` from now on. `http` has been bound and must outlive this.
  ServingThread(server::HttpServer& http, std::vector<server::Route> routes);
  /// Stops `http`, without waiting for those who send or read slowly.
  ~ServingThread();
  ServingThread(const ServingThread&) = delete;
  ServingThread& operator=(const ServingThread&) = delete;

  /// Waits until `http` has been stopped and every request has been answered. Throws what serving
  /// threw.
  void join();

 private:
  server::HttpServer& http_;
  std::exception_ptr failure_;  // written by thread_
  std::thread thread_;
};

}  // namespace espalier::commands
