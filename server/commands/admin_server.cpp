#include "server/commands/admin_server.h"

#include <utility>

namespace espalier::commands {
namespace {

/// Within the descriptors that clients of the API cannot take.
constexpr size_t kConnectionsMax = 64;

server::HttpServerOptions http_options(const Options& options) {
  server::HttpServerOptions http;
  http.host = options.admin_host.empty() ? options.host : options.admin_host;
  http.port = options.admin_port;
  http.option_prefix = "--admin-";
  http.threads = 1;  // nothing is posted here; probes have threads of their own
  http.body_bytes_max = size_t{1} << 16U;
  http.head_bytes_max = options.max_header_kb << 10U;
  http.connections_max = kConnectionsMax;
  return http;
}

}  // namespace

AdminServer::AdminServer(const Options& options, server::HttpServer::RequestObserver observer)
    : http_(http_options(options), std::move(observer)) {
  http_.bind();
}

void AdminServer::stop() { thread_.reset(); }

void AdminServer::start(std::vector<server::Route> routes) {
  thread_.emplace(http_, std::move(routes));
}

void AdminServer::replace_routes(std::vector<server::Route> routes) {
  http_.replace_routes(std::move(routes));
}

}  // namespace espalier::commands
