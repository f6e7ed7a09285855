#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "espalier_version.h"
#include "server/access/api_keys.h"
#include "server/api/api_routes.h"
#include "server/commands/admin_server.h"
#include "server/api/page_routes.h"
#include "server/commands/commands.h"
#include "server/commands/descriptor_limit.h"
#include "server/commands/runtime.h"
#include "server/commands/shutdown_signals.h"
#include "server/debug/batch_recorder.h"
#include "server/http/cors.h"
#include "server/http/http_server.h"
#include "server/http/tls.h"
#include "server/observe/batch_fan_out.h"
#include "server/observe/metrics.h"

namespace espalier::commands {
namespace {

/// Of --api-key, --admin-key and --api-key-file; none: everyone is served.
std::optional<server::ApiKeys> api_keys(const Options& options) {
  server::ApiKeys keys(options.share_across_keys);
  if (!options.api_key_file.empty()) keys.load(options.api_key_file);
  for (const auto& key : options.api_keys) keys.add("--api-key", key, false);
  for (const auto& key : options.admin_keys) keys.add("--admin-key", key, true);
  if (keys.size() == 0) return std::nullopt;
  spdlog::info("requests need one of {} API keys", keys.size());
  return keys;
}

/// Null without --tls-cert. SIGHUP reads the files again.
std::shared_ptr<server::TlsContext> tls_context(const Options& options, ShutdownSignals& signals) {
  if (options.tls_cert.empty()) return nullptr;
  auto tls = std::make_shared<server::TlsContext>(options.tls_cert, options.tls_key);
  signals.on_hangup([tls] {
    try {
      tls->reload();
      spdlog::info("SIGHUP: the certificate has been read again");
    } catch (const std::exception& error) {
      spdlog::error("SIGHUP: the certificate stays as it was: {}", error.what());
    }
  });
  return tls;
}

server::HttpServerOptions http_options(const Options& options,
                                       std::shared_ptr<const server::TlsContext> tls) {
  server::HttpServerOptions http;
  http.host = options.host;
  http.port = options.port;
  http.threads = options.http_threads;
  http.body_bytes_max = options.max_body_mb << 20U;
  http.head_bytes_max = options.max_header_kb << 10U;
  http.connections_max = connections_within(raise_descriptor_limit());
  http.tls = std::move(tls);
  http.cors = server::CorsPolicy(options.cors_origins);
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
std::string base_url(bool tls, const std::string& host, uint16_t port) {
  const bool ipv6 = host.find(':') != std::string::npos;
  return (tls ? "https://" : "http://") + (ipv6 ? "[" + host + "]" : host) + ":" +
         std::to_string(port);
}

}  // namespace

int serve(const Options& options) {
  ShutdownSignals signals(!options.tls_cert.empty());
  const auto keys = api_keys(options);
  server::Metrics metrics;
  const auto observe = [&](const server::HttpExchange& exchange) {
    metrics.on_request(exchange.route, exchange.status, exchange.seconds);
    spdlog::debug("{} {} {:.1f} ms", exchange.route, exchange.status, 1e3 * exchange.seconds);
  };
  const auto tls = tls_context(options, signals);
  server::HttpServer http(http_options(options, tls), observe);
  // Before the model is loaded: a port in use should not cost the minutes that a large model takes.
  const uint16_t port = http.bind();
  auto bound_admin =
      options.admin_port != 0 ? std::make_unique<AdminServer>(options, observe) : nullptr;

  std::optional<server::BatchRecorder> recorder;
  if (options.debug_endpoints) recorder.emplace();
  server::BatchFanOut observers({&metrics, recorder ? &*recorder : nullptr});
  Runtime runtime(options, &observers);
  std::atomic<bool> ready = true;
  Gate all_answered;
  // Goes before what it shows, but after the other port has drained, so that probes see that.
  const auto admin = std::move(bound_admin);
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
  auto routes = server::api_routes(context);
  if (!options.no_page) std::ranges::move(server::page_routes(), std::back_inserter(routes));
  if (admin != nullptr) {
    auto admin_routes = server::admin_routes(context);
    std::ranges::move(server::open_debug_routes(context), std::back_inserter(admin_routes));
    admin->start(std::move(admin_routes));
    spdlog::info("probes and metrics are at {}",
                 base_url(false, options.admin_host.empty() ? options.host : options.admin_host,
                          options.admin_port));
  } else {
    std::ranges::move(server::admin_routes(context), std::back_inserter(routes));
  }
  spdlog::info("{} is ready at {}", runtime.service().model().name,
               base_url(tls != nullptr, options.host, port));
  http.serve(std::move(routes));
  all_answered.open();
  signals.finish();
  if (admin != nullptr) admin->stop();
  spdlog::info("every request has been answered; goodbye");
  return EXIT_SUCCESS;
}

}  // namespace espalier::commands
