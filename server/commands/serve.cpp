#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "server/access/api_keys.h"
#include "server/api/api_routes.h"
#include "server/api/loading_routes.h"
#include "server/api/page_routes.h"
#include "server/commands/admin_server.h"
#include "server/commands/commands.h"
#include "server/commands/descriptor_limit.h"
#include "server/commands/logging.h"
#include "server/commands/memory_limit.h"
#include "server/commands/progress_line.h"
#include "server/commands/request_budget.h"
#include "server/commands/runtime.h"
#include "server/commands/service_manager.h"
#include "server/commands/serving_thread.h"
#include "server/commands/shutdown_signals.h"
#include "server/commands/version.h"
#include "server/debug/batch_recorder.h"
#include "server/http/cors.h"
#include "server/http/http_server.h"
#include "server/http/tls.h"
#include "server/http/trusted_proxies.h"
#include "server/observe/access_log.h"
#include "server/observe/batch_fan_out.h"
#include "server/observe/metrics.h"
#include "server/service/heap_trim.h"
#include "server/service/request_memory.h"

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
  http.connections_max = std::min(connections_within(raise_descriptor_limit()),
                                  connections_within_memory(memory_limit(), http.head_bytes_max));
  http.tls = std::move(tls);
  http.cors = server::CorsPolicy(options.cors_origins);
  http.trusted_proxies = server::TrustedProxies(options.trusted_proxies);
  return http;
}

/// Says also when bodies may not be as large as was asked for.
void log_request_budget(const RequestBudget& budget, const Options& options) {
  spdlog::info("memory: {} for requests: bodies {}, reading them {}, answers {}, unread ones {}",
               byte_text(budget.total()), byte_text(budget.http.bodies), byte_text(budget.reading),
               byte_text(budget.answers), byte_text(budget.http.unsent));
  if (budget.http.body_bytes_max >= options.max_body_mb << 20U) return;
  spdlog::warn(
      "bodies of requests may have up to {}, not the {} of --max-body-mb: there is no more memory",
      byte_text(budget.http.body_bytes_max), byte_text(options.max_body_mb << 20U));
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

/// However its scope is left: a shutdown under way ends before what it uses goes away.
class ShutdownEnd {
 public:
  ShutdownEnd(ShutdownSignals& signals, Gate& all_answered)
      : signals_(signals), all_answered_(all_answered) {}
  ~ShutdownEnd() {
    all_answered_.open();
    signals_.finish();
  }
  ShutdownEnd(const ShutdownEnd&) = delete;
  ShutdownEnd& operator=(const ShutdownEnd&) = delete;

 private:
  ShutdownSignals& signals_;
  Gate& all_answered_;
};

/// "http://127.0.0.1:8080", with IPv6 addresses in brackets.
std::string base_url(bool tls, const std::string& host, uint16_t port) {
  const bool ipv6 = host.find(':') != std::string::npos;
  return (tls ? "https://" : "http://") + (ipv6 ? "[" + host + "]" : host) + ":" +
         std::to_string(port);
}

void append(std::vector<server::Route> more, std::vector<server::Route>& routes) {
  std::ranges::move(more, std::back_inserter(routes));
}

std::vector<server::ModelInfo> model_infos(const Options& options,
                                           const server::ModelDirectory& models) {
  std::vector<server::ModelInfo> infos;
  for (const auto* const service : models.services()) {
    const server::ServedModel& model = service->model();
    infos.push_back({model.name, model.dtype, options.dedup, version_number()});
  }
  return infos;
}

/// "embeds and reranks": what a model can do.
const char* abilities(const server::ServedModel& model) {
  if (model.can_embed() && model.can_rerank()) return "embeds and reranks";
  return model.can_embed() ? "embeds" : "reranks";
}

/// "a is ready at http://…"; of several models first a line each.
void log_ready(const server::ModelDirectory& models, const std::string& url) {
  if (!models.has_several()) {
    spdlog::info("{} is ready at {}", models.first().model().name, url);
    return;
  }
  for (const auto* const service : models.services()) {
    const server::ServedModel& model = service->model();
    spdlog::info("the model {} {}, and takes inputs of up to {} tokens", model.name,
                 abilities(model), model.max_input_tokens);
  }
  spdlog::info("the server of {} is ready at {}", server::model_names(models.services()), url);
}

}  // namespace

int serve(const Options& options) {
  server::configure_heap(engine::usable_cpus());  // before there are threads
  // A unit's `systemctl reload` sends SIGHUP whether there is a certificate or not. In a terminal
  // without one it means what it means to other programs: the window was closed.
  ShutdownSignals signals(!options.tls_cert.empty() || has_service_manager());
  // Whoever reads the log may go; the server stays.
  std::signal(SIGPIPE, SIG_IGN);
  const auto keys = api_keys(options);
  server::Metrics metrics;
  metrics.set_build_info(version_number(), commit());
  if (keys) metrics.announce_keys(keys->names());
  std::optional<server::AccessLog> access_log;
  if (options.access_log == "on") access_log.emplace(log_format(options.log_format));
  const auto observe = [&](const server::HttpExchange& exchange) {
    metrics.on_request(exchange);
    if (access_log) access_log->on_request(exchange);
  };
  const auto tls = tls_context(options, signals);
  server::HttpServer http(http_options(options, tls), observe);
  // Before the model is loaded: a port in use should not cost the minutes that a large model takes.
  const uint16_t port = http.bind();
  auto bound_admin =
      options.admin_port != 0 ? std::make_unique<AdminServer>(options, observe) : nullptr;

  std::optional<server::BatchRecorder> recorder;
  if (options.debug_endpoints) recorder.emplace();
  server::ApiContext context;
  context.metrics = &metrics;
  context.api_keys = keys ? &*keys : nullptr;
  context.recorder = recorder ? &*recorder : nullptr;
  context.version = version_number();

  // While the models are loaded, which may take minutes, probes hear so instead of nothing.
  auto while_loading = metrics.watch_routes(server::admin_routes(context));
  if (bound_admin != nullptr) bound_admin->start(std::exchange(while_loading, {}));
  auto answered_while_loading = server::loading_routes();
  append(std::move(while_loading), answered_while_loading);
  server::BatchFanOut observers({&metrics, recorder ? &*recorder : nullptr});
  // Outlive the requests that they answer.
  std::optional<server::RequestMemory> request_memory;
  std::optional<Runtime> loaded;
  std::atomic<bool> ready = true;
  tell_service_manager("STATUS=loading models; /readyz answers 503 until they are there");
  ServingThread serving(http, std::move(answered_while_loading));
  Runtime& runtime = loaded.emplace(options, &observers);
  const RequestBudget& budget = runtime.request_budget();
  log_request_budget(budget, options);
  request_memory.emplace(budget.reading, budget.answers);
  http.limit_memory(budget.http);
  metrics.announce_models(model_infos(options, runtime.models()));
  Gate all_answered;
  // Goes before what it shows, but after the other port has drained, so that probes see that.
  const auto admin = std::move(bound_admin);
  const ShutdownEnd shutdown_end(signals, all_answered);
  metrics.set_ready(true);  // before a signal may say that it is not
  signals.on_signal([&] {
    ready = false;
    metrics.set_ready(false);
    tell_service_manager("STOPPING=1\nSTATUS=finishing accepted requests");
    http.stop();
    if (all_answered.wait_for(std::chrono::seconds(options.drain_timeout))) return;
    const auto report = runtime.scheduler().drain(std::chrono::milliseconds(0));
    metrics.on_abandoned(report.abandoned_requests);
    spdlog::warn("{} requests did not finish within {} s and were answered 503",
                 report.abandoned_requests, options.drain_timeout);
    http.abandon();
  });

  context.models = &runtime.models();
  context.scheduler = &runtime.scheduler();
  context.memory = &*request_memory;
  context.limits = {options.http_threads, options.max_batch_tokens, runtime.tokenizer_threads()};
  context.ready = [&] { return ready.load(); };
  auto routes = server::api_routes(context);
  routes.push_back(server::openapi_route());
  if (!options.no_page) append(server::page_routes(), routes);
  auto admin_routes = server::admin_routes(context);
  if (admin != nullptr) {
    append(server::open_debug_routes(context), admin_routes);
    admin_routes = metrics.watch_routes(std::move(admin_routes));
  } else {
    append(std::exchange(admin_routes, {}), routes);
  }
  routes = metrics.watch_routes(std::move(routes));
  http.replace_routes(std::move(routes));
  if (admin != nullptr) {
    admin->replace_routes(std::move(admin_routes));  // last: it says that the other port is ready
    spdlog::info("probes and metrics are at {}",
                 base_url(false, options.admin_host.empty() ? options.host : options.admin_host,
                          options.admin_port));
  }
  const std::string url = base_url(tls != nullptr, options.host, port);
  log_ready(runtime.models(), url);
  tell_service_manager("READY=1\nSTATUS=ready at " + url);
  serving.join();
  all_answered.open();
  signals.finish();
  if (admin != nullptr) admin->stop();
  spdlog::info("every request has been answered; goodbye");
  return EXIT_SUCCESS;
}

}  // namespace espalier::commands
