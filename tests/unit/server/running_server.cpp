#include "running_server.h"

#include <stdexcept>

namespace espalier::server {

HttpServerOptions test_options() {
  HttpServerOptions options;
  options.port = 0;
  options.body_bytes_max = size_t{1} << 20U;
  options.threads = 8;
  return options;
}

RunningServer::RunningServer(HttpServerOptions options)
    : server_(std::move(options),
              [this](const HttpExchange& exchange) {
                const std::lock_guard lock(mutex_);
                observed_.push_back(exchange.route + " " + std::to_string(exchange.status));
                changed_.notify_all();
              }),
      port_(server_.bind()),
      thread_([this] {
        server_.serve(routes());
        const std::lock_guard lock(mutex_);
        returned_ = true;
        changed_.notify_all();
      }) {}

RunningServer::~RunningServer() {
  release();
  server_.stop();
  thread_.join();
}

void RunningServer::await_waiting(size_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return waiting_ >= count; });
}

void RunningServer::release() {
  const std::lock_guard lock(mutex_);
  released_ = true;
  changed_.notify_all();
}

bool RunningServer::returns(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, patience, [&] { return returned_; });
}

std::vector<std::string> RunningServer::observed(size_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::seconds(20), [&] { return observed_.size() >= count; });
  return observed_;
}

HttpResponse RunningServer::wait_for_release(const HttpRequest& request) {
  std::unique_lock lock(mutex_);
  ++waiting_;
  changed_.notify_all();
  HttpResponse response;
  while (!changed_.wait_for(lock, std::chrono::milliseconds(10), [&] { return released_; })) {
    if (!request.client_gone()) continue;
    response.status = 499;
    break;
  }
  --waiting_;
  response.body = "{}";
  return response;
}

std::vector<Route> RunningServer::routes() {
  const auto echo = [](const HttpRequest& request) {
    HttpResponse response;
    response.content_type = "text/plain";
    response.body = request.content_type + "|" + request.body;
    return response;
  };
  const auto health = [](const HttpRequest&) {
    HttpResponse response;
    response.body = "{\"status\":\"ok\"}";
    return response;
  };
  const auto admit = [](const HttpRequest& request) -> std::optional<HttpResponse> {
    const std::string* const sent = request.fields.find("authorization");
    if (sent != nullptr && *sent == "let me in") return std::nullopt;
    HttpResponse refusal;
    refusal.status = 401;
    refusal.body = "{}";
    return refusal;
  };
  const auto who = [](const HttpRequest& request) {
    HttpResponse response;
    const std::string* const timeout = request.fields.find("x-request-timeout-ms");
    response.body = request.client_address + "|" + (timeout != nullptr ? *timeout : "none");
    return response;
  };
  const auto fail = [](const HttpRequest&) -> HttpResponse { throw std::runtime_error("oops"); };
  const auto own_form = [](const ApiError& error) {
    HttpResponse response;
    response.status = http_status(error.kind);
    response.body = "in a form of its own";
    return response;
  };
  return {
      {"POST", "/echo", echo},
      {"POST", "/own-form", echo, {}, own_form},
      {"POST", "/wait", [this](const HttpRequest& request) { return wait_for_release(request); }},
      {"GET", "/health", health},
      {"POST", "/guarded", who, admit},
      {"GET", "/throw", fail},
      {"POST", "/large", [](const HttpRequest&) {
         HttpResponse response;
         response.body.assign(size_t{16} << 20U, 'x');
         return response;
       }}};
}

}  // namespace espalier::server
