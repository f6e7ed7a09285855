#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "espalier_version.h"
#include "server/access/api_keys.h"
#include "server/api/api_routes.h"
#include "server/commands/commands.h"
#include "server/commands/runtime.h"
#include "server/commands/shutdown_signals.h"
#include "server/debug/batch_recorder.h"
#include "server/http/http_server.h"
#include "server/observe/batch_fan_out.h"
#include "server/observe/metrics.h"

namespace espalier::commands {
namespace {

server::HttpServerOptions http_options(const Options& options) {
  server::HttpServerOptions http;
  http.host = options.host;
  http.port = options.port;
  http.threads = options.http_threads;
  http.body_bytes_max = options.max_body_mb << 20U;
  return http;
}

/// Opens once, wakes whoever waits for it.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }
  bool wait_for(std::chrono::seconds timeout) {
    std::unique_lock lock(mutex_);
    return opened_.wait_for(lock, timeout, [&] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

/// "http://127.0.0.1:8080", with IPv6 addresses in brackets.
std::string base_url(const std::string& host, uint16_t port) {
  const bool ipv6 = host.find(':') != std::string::npos;
  return "http://" + (ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

}  // namespace

int serve(const Options& options) {
  ShutdownSignals signals;
  std::optional<server::ApiKeys> keys;
  if (!options.api_key_file.empty()) {
    keys = server::ApiKeys::load(options.api_key_file, options.share_across_keys);
    spdlog::info("{} API keys from {}", keys->size(), options.api_key_file);
  }
  server::Metrics metrics;
  server::HttpServer http(http_options(options), [&](const server::HttpExchange& exchange) {
    metrics.on_request(exchange.route, exchange.status, exchange.seconds);
    spdlog::debug("{} {} {:.1f} ms", exchange.route, exchange.status, 1e3 * exchange.seconds);
  });
  // Before the model is loaded: a port in use should not cost the minutes that a large model takes.
  const uint16_t port = http.bind();

  std::optional<server::BatchRecorder> recorder;
  if (options.debug_endpoints) recorder.emplace();
  server::BatchFanOut observers({&metrics, recorder ? &*recorder : nullptr});
  Runtime runtime(options, &observers);
  std::atomic<bool> ready = true;
  Gate all_answered;
  signals.on_signal([&] {
    ready = false;
    http.stop();
    if (all_answered.wait_for(std::chrono::seconds(options.drain_timeout))) return;
    const auto report = runtime.scheduler().drain(std::chrono::milliseconds(0));
    metrics.on_abandoned(report.abandoned_requests);
    spdlog::warn("{} requests did not finish within {} s and were answered 503",
                 report.abandoned_requests, options.drain_timeout);
  });

  server::ApiContext context;
  context.service = &runtime.service();
  context.scheduler = &runtime.scheduler();
  context.metrics = &metrics;
  context.api_keys = keys ? &*keys : nullptr;
  context.recorder = recorder ? &*recorder : nullptr;
  context.limits = {options.http_threads, options.max_batch_tokens, runtime.tokenizer_threads()};
  context.version = ESPALIER_VERSION;
  context.ready = [&] { return ready.load(); };
  spdlog::info("{} is ready at {}", runtime.service().model().name, base_url(options.host, port));
  http.serve(server::api_routes(context));
  all_answered.open();
  signals.finish();
  spdlog::info("every request has been answered; goodbye");
  return EXIT_SUCCESS;
}

}  // namespace espalier::commands
