// The port for probes and metrics, apart from that of the API: plain HTTP, threads of its own,
// still there while the API's port drains.
//
// Thread contract: one thread.
#pragma once

#include <optional>
#include <vector>

#include "server/commands/options.h"
#include "server/commands/serving_thread.h"
#include "server/http/http_server.h"

namespace espalier::commands {

class AdminServer {
 public:
  /// Listens at --admin-host and --admin-port; throws std::runtime_error with the mend.
  AdminServer(const Options& options, server::HttpServer::RequestObserver observer);
  /// Calls stop().
  ~AdminServer() { stop(); }
  AdminServer(const AdminServer&) = delete;
  AdminServer& operator=(const AdminServer&) = delete;

  /// Answers from now on. Call at most once.
  void start(std::vector<server::Route> routes);
  /// Answers by these from now on.
  void replace_routes(std::vector<server::Route> routes);
  /// Answers what has been asked, then closes; who reads nothing does not hold up the end.
  void stop();

 private:
  server::HttpServer http_;
  std::optional<ServingThread> thread_;
};

}  // namespace espalier::commands
