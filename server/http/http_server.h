// HTTP/1.1 on cpp-httplib, with its traps closed (see docs/decisions): a real listen backlog, a
// port in use is an error, bodies counted after decoding, idle connections hold no thread, a
// vanished client is noticed.
//
// Accepting, TLS, idle connections, heads and the arrival of bodies are ours (connection_loop.h,
// request_head.h, body_receiver.h); the library decodes bodies and writes answers
// (http_codec.h). GET requests
// have threads of their own, so that probes are answered while every other thread waits for the
// model.
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
#include <utility>
#include <variant>
#include <vector>

#include "server/api_error.h"
#include "server/http/cors.h"
#include "server/http/header_fields.h"
#include "server/http/tls.h"
#include "server/http/trusted_proxies.h"

namespace espalier::server {

struct HttpRequest {
  std::string method;
  std::string path;  // without the query string, not percent-decoded
  std::string id;    // X-Request-Id: the client's if it is a sound one, else a new one
  HeaderFields fields;
  std::string content_type;    // lower case, without parameters; empty if absent
  std::string peer_address;    // of the connection, see peer_address.h
  std::string client_address;  // the peer's, or what trusted proxies say; see trusted_proxies.h
  std::chrono::steady_clock::time_point received_at{};  // when its head was read
  std::string body;                                     // decoded
  /// True once the client has closed its connection, or only its sending half (`nc -N`): the two
  /// look the same. Short requests are answered before anybody asks.
  std::function<bool()> client_gone;
};

/// What a handler tells the log about a request, by name.
using LogValue = std::variant<uint64_t, double, std::string>;
using LogFields = std::vector<std::pair<std::string, LogValue>>;

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  LogFields log;
  std::shared_ptr<const void> memory = nullptr;  // let go of once the answer has been written
};

/// Looks at a request before its body is read; an answer refuses it.
using HttpAdmission = std::function<std::optional<HttpResponse>(const HttpRequest&)>;
using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;
/// Writes an error as the clients of a route read it.
using HttpErrorForm = std::function<HttpResponse(const ApiError&)>;

struct Route {
  std::string method;  // "GET" or "POST"
  std::string path;    // exact, or with "/*" at its end for everything below it
  HttpHandler handler;
  HttpAdmission admission = {};   // absent: everyone is let in
  HttpErrorForm error_form = {};  // of what fails on the way to `handler`; absent: error_response()
};

/// An error on the way to the handler of `route` (null: there is none), as its clients read it.
HttpResponse error_answer(const Route* route, const ApiError& error);

/// What requests that no route took are counted under: paths are the client's to choose, and each
/// would be a time series.
inline constexpr char kOtherRoute[] = "other";

/// One request and its answer, for logs and metrics; references are valid during the call.
struct HttpExchange {
  const std::string& route;    // Route::path, or kOtherRoute
  const HttpRequest& request;  // its body may be gone; nothing but an id if its head was broken
  int status = 200;
  double seconds = 0;         // from the head's arrival until the answer was handed on
  size_t request_bytes = 0;   // of the body, before decoding
  size_t response_bytes = 0;  // of the body
  const LogFields& log;       // the handler's
};

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;                    // 0: any free one
  std::string option_prefix = "--";        // of `host` and `port`, for messages about them
  size_t body_bytes_max = 32UL << 20U;     // after decoding; beyond: 413
  size_t answer_bytes_max = 512UL << 20U;  // of all that are being written; beyond: 429
  size_t head_bytes_max = 32UL << 10U;     // request line and header fields; beyond: 431
  size_t threads = 256;                    // requests in progress at once; more wait to be handled
  size_t idle_seconds_max = 60;            // an idle keep-alive connection is closed after it
  size_t receive_seconds_max = 30;         // a sender that stalls longer is dropped
  size_t connections_max = SIZE_MAX;       // open at once; more take the places of idle ones
  std::shared_ptr<const TlsContext> tls = nullptr;  // null: plain HTTP
  CorsPolicy cors = {};
  TrustedProxies trusted_proxies = {};
};

/// Largest bodies that may be in memory at once; more are answered 429.
inline constexpr size_t kLargestBodiesAtOnce = 8;

/// Less memory than HttpServerOptions allow.
struct HttpMemory {
  size_t body_bytes_max = 0;  // of one body, after decoding
  size_t bodies = 0;          // of all that are in memory
  size_t answers = 0;         // of all that are being written,
  size_t unsent = 0;          // … and of what their clients have not read yet
};

class HttpServer {
 public:
  /// What happened to one request, also when no route took it; called after the answer was written.
  using RequestObserver = std::function<void(const HttpExchange&)>;

  HttpServer(HttpServerOptions options, RequestObserver observer);
  ~HttpServer();

  /// Binds and listens; throws std::runtime_error (address in use, no such host …) with the mend.
  /// Returns the port. Clients that connect from now on wait for serve().
  uint16_t bind();
  /// Serves `routes` until stop(); returns when every connection's request has been answered. Call
  /// once, after bind().
  void serve(std::vector<Route> routes);
  /// Answers requests whose heads come from now on by `routes`; from any thread, during serve().
  void replace_routes(std::vector<Route> routes);
  /// For requests whose heads come from now on; from any thread.
  void limit_memory(const HttpMemory& memory);
  /// Stops accepting; requests that are being handled are finished and answered. May be called
  /// before, during and after serve(), and more than once.
  void stop();
  /// After stop(), from any thread: nobody is waited for any more who sends a body or reads an
  /// answer slowly. Requests that are being handled still are.
  void abandon();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace espalier::server
