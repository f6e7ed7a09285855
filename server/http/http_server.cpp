#include "server/http/http_server.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "server/error_response.h"
#include "server/http/body_budget.h"
#include "server/http/body_receiver.h"
#include "server/http/connection.h"
#include "server/http/connection_loop.h"
#include "server/http/http_codec.h"
#include "server/http/listening_socket.h"
#include "server/http/peer_address.h"
#include "server/http/request_head.h"
#include "server/http/request_id.h"
#include "server/http/request_threads.h"
#include "server/http/visit.h"

namespace espalier::server {
namespace {

/// Threads for GET and HEAD, whose handlers wait for nothing.
constexpr size_t kProbeThreads = 2;
constexpr int kNoContent = 204;

ApiError http_error(ErrorKind kind, std::string message) {
  ApiError error;
  error.kind = kind;
  error.message = std::move(message);
  return error;
}

/// What the route's functions see of a visit; the body comes later.
HttpRequest request_without_body(const Visit& visit, SteadyClock::time_point received_at,
                                 const TrustedProxies& proxies) {
  HttpRequest request;
  request.method = visit.head.method;
  request.path = visit.head.path;
  request.content_type = visit.head.content_type;
  request.fields = visit.head.fields;
  const std::string* const id = request.fields.find("x-request-id");
  request.id = id != nullptr && is_sound_request_id(*id) ? *id : new_request_id();
  request.peer_address = peer_address(visit.connection.fd());
  // Of each request anew: a proxy sends those of several clients on one connection.
  request.client_address = proxies.client_of(request.peer_address, request.fields);
  request.received_at = received_at;
  request.client_gone = [&connection = visit.connection] { return connection.peer_gone(); };
  return request;
}

/// Whether `path` is the route's, or below it.
bool takes(const Route& route, std::string_view path) {
  if (!route.path.ends_with("/*")) return route.path == path;
  const auto above = std::string_view(route.path).substr(0, route.path.size() - 1);
  return path.starts_with(above) && path.size() > above.size();
}

/// What becomes of a connection that a thread is done with.
enum class After : uint8_t { kKeep, kAwaitBody, kLinger, kClose, kAbandon };

}  // namespace

struct HttpServer::Impl {
  Impl(HttpServerOptions options_in, RequestObserver observer_in)
      : options(std::move(options_in)),
        observer(std::move(observer_in)),
        body_budget(kLargestBodiesAtOnce * options.body_bytes_max),
        answer_budget(options.answer_bytes_max),
        unsent_budget(kLargestBodiesAtOnce * options.body_bytes_max),
        body_bytes_max(options.body_bytes_max),
        codec({.answer = [this](Visit& visit, BodyState state,
                                std::string body) { return answer(visit, state, std::move(body)); },
               .before_writing = [this](Visit& visit) { complete_answer(visit); }}),
        loop({.idle_max = std::chrono::seconds(options.idle_seconds_max),
              .head_max = std::chrono::seconds(options.receive_seconds_max),
              .head_bytes_max = options.head_bytes_max,
              .connections_max = options.connections_max},
             options.tls,
             [this](std::unique_ptr<Connection> connection) { dispatch(std::move(connection)); }) {}

  void dispatch(std::unique_ptr<Connection> connection);
  void serve_one(std::unique_ptr<Connection> connection);
  After handle(Connection& connection);
  void begin(Connection& connection);
  After finish(Visit& visit);
  void route(Visit& visit);
  bool answer_preflight(Visit& visit) const;
  bool reject_before_body(Visit& visit);
  static std::optional<HttpResponse> ask_admission(const Visit& visit);
  HttpResponse answer(Visit& visit, BodyState state, std::string body) const;
  ApiError body_error(const Visit& visit, BodyState state) const;
  void complete_answer(Visit& visit);

  HttpServerOptions options;
  RequestObserver observer;
  void set_routes(std::vector<Route> more);
  RouteTable current_routes() const;

  mutable std::mutex routes_mutex;
  RouteTable routes;  // guarded by routes_mutex
  BodyBudget body_budget;
  BodyBudget answer_budget;
  BodyBudget unsent_budget;  // of answers that their clients do not read
  std::atomic<size_t> body_bytes_max;
  HttpCodec codec;
  ListeningSocket listener;
  ConnectionLoop loop;
  std::unique_ptr<RequestThreads> threads;
  std::unique_ptr<RequestThreads> probe_threads;
};

void HttpServer::Impl::set_routes(std::vector<Route> more) {
  auto table = std::make_shared<const std::vector<Route>>(std::move(more));
  const std::lock_guard lock(routes_mutex);
  routes.swap(table);
}

RouteTable HttpServer::Impl::current_routes() const {
  const std::lock_guard lock(routes_mutex);
  return routes;
}

void HttpServer::Impl::dispatch(std::unique_ptr<Connection> connection) {
  const auto bytes = connection->buffered_bytes();
  const bool probe =
      connection->pending == nullptr &&
      (bytes.starts_with("GET ") || bytes.starts_with("HEAD ") || bytes.starts_with("OPTIONS "));
  try {
    (probe ? probe_threads : threads)->handle(std::move(connection));
  } catch (const std::bad_alloc&) {
    loop.closed();  // no memory for the queue's entry: the connection was closed with it
  }
}

void HttpServer::Impl::serve_one(std::unique_ptr<Connection> connection) {
  After after = After::kAbandon;
  try {
    after = handle(*connection);
  } catch (...) {
    after = After::kAbandon;  // no memory, not even to say so: the client sees a closed connection
  }
  const bool all_sent = !connection->has_unsent();
  if (after == After::kLinger && all_sent) connection->begin_lingering();
  connection->next = after == After::kClose    ? Connection::Next::kClose
                     : after == After::kLinger ? Connection::Next::kLinger
                                               : Connection::Next::kRequest;
  if (after == After::kAbandon || (after == After::kClose && all_sent)) {
    connection.reset();
    loop.closed();
  } else {
    loop.give_back(std::move(connection));
  }
}

After HttpServer::Impl::handle(Connection& connection) {
  if (connection.pending == nullptr) begin(connection);
  auto& visit = static_cast<Visit&>(*connection.pending);
  if (visit.reads_body() && visit.receiver.receive(connection) == BodyState::kIncomplete)
    return After::kAwaitBody;
  const auto owned = std::move(connection.pending);
  return finish(visit);
}

void HttpServer::Impl::begin(Connection& connection) {
  const auto received_at = SteadyClock::now();
  auto head = connection.is_refused_plain_text()
                  ? Result<RequestHead>(tl::unexpected(http_error(
                        ErrorKind::kInvalidRequest, "this port speaks TLS alone: use https://")))
                  : parse_request_head(connection.take_head(), options.head_bytes_max);
  auto owned =
      std::make_unique<Visit>(connection, head ? std::move(*head) : RequestHead{}, body_bytes_max,
                              options, body_budget, answer_budget, unsent_budget);
  Visit& visit = *owned;
  visit.request = request_without_body(visit, received_at, options.trusted_proxies);
  if (head) {
    route(visit);
  } else {
    visit.answer = error_response(head.error());
    visit.answered = true;
    visit.head_was_sound = false;
    visit.close_after = true;
  }
  connection.pending = std::move(owned);
  const bool waits_for_us = visit.head.expects_continue && !connection.has_buffered_bytes() &&
                            visit.receiver.state() == BodyState::kIncomplete;
  if (!visit.reads_body() || !waits_for_us) return;
  // A failure shows in the next read.
  connection.write("HTTP/1.1 100 Continue\r\n\r\n", unsent_budget, visit.stall_max);
}

After HttpServer::Impl::finish(Visit& visit) {
  Connection& connection = visit.connection;
  const BodyState state = visit.receiver.state();
  if (visit.reads_body() && state != BodyState::kComplete) {
    visit.answer = error_answer(visit.route, body_error(visit, state));
    visit.answered = true;
    visit.close_after = true;
  }
  codec.process(visit);
  static const std::string other(kOtherRoute);
  const auto taken = SteadyClock::now() - visit.request.received_at;
  observer({.route = visit.route != nullptr ? visit.route->path : other,
            .request = visit.request,
            .status = visit.answer.status,
            .seconds = std::chrono::duration<double>(taken).count(),
            .request_bytes = visit.receiver.content_bytes(),
            .response_bytes = visit.response_bytes,
            .log = visit.answer.log});
  if (visit.send_failed) return After::kAbandon;
  if (!visit.close_after) return After::kKeep;
  const bool all_read = visit.head_was_sound && visit.receiver.state() == BodyState::kComplete &&
                        !connection.has_buffered_bytes() && !connection.has_unread_bytes();
  return all_read ? After::kClose : After::kLinger;
}

void HttpServer::Impl::route(Visit& visit) {
  const RequestHead& head = visit.head;
  if (answer_preflight(visit)) return;
  std::string allowed;
  const Route* of_path = nullptr;
  visit.routes = current_routes();
  for (const Route& route : *visit.routes) {
    if (!takes(route, head.path)) continue;
    of_path = &route;
    if (route.method == head.method || (route.method == "GET" && head.method == "HEAD"))
      visit.route = &route;
    allowed += (allowed.empty() ? "" : ", ") + route.method;
    if (route.method == "GET") allowed += ", HEAD";
  }
  if (visit.route == nullptr) {
    visit.answer = error_answer(
        of_path, allowed.empty() ? http_error(ErrorKind::kNotFound, "there is nothing at this path")
                                 : http_error(ErrorKind::kMethodNotAllowed,
                                              "this path takes " + allowed + ", not " +
                                                  head.method.substr(0, 32)));
    if (!allowed.empty()) visit.answer.headers.emplace_back("Allow", allowed);
    visit.answered = true;
  } else {
    visit.answered = reject_before_body(visit);
  }
  // What cannot be read as the next request ends the connection.
  visit.close_after = !head.keep_alive || (!visit.reads_body() && head.body != BodyKind::kNone);
}

/// Without a key: browsers send none with it.
bool HttpServer::Impl::answer_preflight(Visit& visit) const {
  const RequestHead& head = visit.head;
  if (!options.cors.is_preflight(head.method, head.fields)) return false;
  visit.answer.status = kNoContent;
  options.cors.append_preflight_fields(head.fields, visit.answer.headers);
  visit.answered = true;
  visit.close_after = !head.keep_alive || head.body != BodyKind::kNone;
  return true;
}

bool HttpServer::Impl::reject_before_body(Visit& visit) {
  const RequestHead& head = visit.head;
  const std::string& encoding = head.content_encoding;
  if (auto refusal = ask_admission(visit)) {
    visit.answer = std::move(*refusal);
  } else if (head.body == BodyKind::kLength && head.content_length > visit.body_bytes_max) {
    visit.answer = error_answer(visit.route, body_error(visit, BodyState::kTooLarge));
  } else if (!encoding.empty() && encoding != "gzip" && encoding != "deflate" && encoding != "br") {
    visit.answer = error_answer(
        visit.route, http_error(ErrorKind::kUnsupportedMediaType,
                                "Content-Encoding may be gzip, deflate or br, or left out"));
  } else {
    return false;
  }
  return true;
}

std::optional<HttpResponse> HttpServer::Impl::ask_admission(const Visit& visit) {
  if (!visit.route->admission) return std::nullopt;
  try {
    return visit.route->admission(visit.request);
  } catch (...) {
    return error_answer(visit.route, http_error(ErrorKind::kInternal, "the server failed"));
  }
}

ApiError HttpServer::Impl::body_error(const Visit& visit, BodyState state) const {
  switch (state) {
    case BodyState::kTooLarge:
      return http_error(ErrorKind::kPayloadTooLarge,
                        "the body is larger than " + std::to_string(visit.body_bytes_max) +
                            " bytes (after decoding); send fewer inputs at once");
    case BodyState::kOverloaded:
      return http_error(ErrorKind::kOverloaded,
                        "the server is reading too many large bodies; try again soon");
    case BodyState::kTimeout:
      // Ours to answer for: another server may well take the time.
      if (loop.abandoning()) {
        return http_error(ErrorKind::kShuttingDown,
                          "the server is shutting down, and the body had not arrived in time; send "
                          "the request again");
      }
      // Not 408: clients' libraries would send the same slow body again.
      return http_error(ErrorKind::kInvalidRequest, "the body did not arrive in time");
    case BodyState::kClosed:
      return http_error(ErrorKind::kInvalidRequest,
                        "the connection was closed before the whole body had arrived");
    case BodyState::kIncomplete:
    case BodyState::kComplete:
    case BodyState::kMalformed:
      break;
  }
  return http_error(ErrorKind::kInvalidRequest,
                    visit.receiver.state() == BodyState::kMalformed
                        ? "the body's chunks are malformed"
                        : "the body is not valid " + visit.head.content_encoding);
}

HttpResponse HttpServer::Impl::answer(Visit& visit, BodyState state, std::string body) const {
  if (state != BodyState::kComplete) return error_answer(visit.route, body_error(visit, state));
  visit.request.body = std::move(body);
  try {
    return visit.route->handler(visit.request);
  } catch (...) {
    return error_answer(visit.route, http_error(ErrorKind::kInternal, "the server failed"));
  }
}

void HttpServer::Impl::complete_answer(Visit& visit) {
  // One alone is always written, whatever its size.
  const bool others = answer_budget.is_in_use();
  if (!visit.answer_share.grow(visit.answer.body.size()) && others) {
    LogFields log = std::move(visit.answer.log);
    visit.answer = error_answer(
        visit.route, http_error(ErrorKind::kOverloaded,
                                "the server is sending too many large answers; try again soon"));
    visit.answer.log = std::move(log);
  }
  visit.close_after = visit.close_after || loop.stopping();
  if (visit.answer.status == http_status(ErrorKind::kClientGone)) visit.send_failed = true;
  visit.response_bytes = visit.answer.body.size();
  visit.answer.headers.emplace_back("X-Request-Id", visit.request.id);
  options.cors.append_answer_fields(visit.request.fields, visit.answer.headers);
}

HttpResponse error_answer(const Route* route, const ApiError& error) {
  const bool has_form = route != nullptr && route->error_form;
  return has_form ? route->error_form(error) : error_response(error);
}

HttpServer::HttpServer(HttpServerOptions options, RequestObserver observer)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(observer))) {}

HttpServer::~HttpServer() = default;

uint16_t HttpServer::bind() {
  impl_->listener =
      listen_on(impl_->options.host, impl_->options.port, impl_->options.option_prefix);
  return impl_->listener.port;
}

void HttpServer::serve(std::vector<Route> routes) {
  if (!impl_->listener.fd.is_open()) throw std::logic_error("HttpServer: bind() before serve()");
  impl_->set_routes(std::move(routes));
  const auto serve_one = [impl = impl_.get()](std::unique_ptr<Connection> connection) {
    impl->serve_one(std::move(connection));
  };
  impl_->threads =
      std::make_unique<RequestThreads>(std::max<size_t>(1, impl_->options.threads), serve_one);
  impl_->probe_threads = std::make_unique<RequestThreads>(kProbeThreads, serve_one);
  impl_->loop.run(std::move(impl_->listener.fd));
  impl_->threads->shut_down();
  impl_->probe_threads->shut_down();
}

void HttpServer::replace_routes(std::vector<Route> routes) { impl_->set_routes(std::move(routes)); }

void HttpServer::limit_memory(const HttpMemory& memory) {
  impl_->body_bytes_max = std::min(memory.body_bytes_max, impl_->options.body_bytes_max);
  impl_->body_budget.set_bytes_max(memory.bodies);
  impl_->answer_budget.set_bytes_max(memory.answers);
  impl_->unsent_budget.set_bytes_max(memory.unsent);
}

void HttpServer::stop() { impl_->loop.stop(); }

void HttpServer::abandon() { impl_->loop.abandon(); }

}  // namespace espalier::server
