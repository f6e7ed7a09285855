// HTTP/1.1 on cpp-httplib, with its traps closed (see docs/decisions): a real listen backlog, a
// port in use is an error, bodies counted after decoding, idle connections hold no thread, a
// vanished client is noticed. The only file that includes httplib.h is http_server.cpp.
//
// Accepting, idle connections and heads are ours (connection_loop.h, request_head.h); the library
// reads and decodes bodies and writes answers. GET requests have threads of their own, so that
// probes are answered while every other thread waits for the model.
//
// Thread contract: handlers run on many threads at once; stop() may be called from any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace espalier::server {

struct HttpRequest {
  std::string method;
  std::string path;                            // without the query string
  std::string content_type;                    // lower case, without parameters; empty if absent
  std::string authorization;                   // the header field as sent; empty if absent
  std::optional<std::string> request_timeout;  // X-Request-Timeout-Ms as sent
  std::string client_address;                  // see peer_address.h
  std::chrono::steady_clock::time_point received_at{};  // when its head was read
  std::string body;                                     // decoded
  /// True once the client has closed its connection, or only its sending half (`nc -N`): the two
  /// look the same. Short requests are answered before anybody asks.
  std::function<bool()> client_gone;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};

/// Looks at a request before its body is read; an answer refuses it.
using HttpAdmission = std::function<std::optional<HttpResponse>(const HttpRequest&)>;
using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

struct Route {
  std::string method;  // "GET" or "POST"
  std::string path;    // exact
  HttpHandler handler;
  HttpAdmission admission = {};  // absent: everyone is let in
};

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;                 // 0: any free one
  size_t body_bytes_max = 32UL << 20U;  // after decoding; beyond: 413
  size_t threads = 256;                 // requests in progress at once; more wait to be read
  size_t idle_seconds_max = 60;         // an idle keep-alive connection is closed after it
  size_t receive_seconds_max = 30;      // a sender that stalls longer is dropped
};

class HttpServer {
 public:
  /// What happened to one request, also when no route took it; called after the answer was written.
  using RequestObserver = std::function<void(const std::string& route, int status, double seconds)>;

  HttpServer(HttpServerOptions options, RequestObserver observer);
  ~HttpServer();

  /// Binds and listens; throws std::runtime_error (address in use, no such host …) with the mend.
  /// Returns the port. Clients that connect from now on wait for serve().
  uint16_t bind();
  /// Serves `routes` until stop(); returns when every connection's request has been answered. Call
  /// once, after bind().
  void serve(std::vector<Route> routes);
  /// Stops accepting; requests that are being handled are finished and answered. May be called
  /// before, during and after serve(), and more than once.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace espalier::server
