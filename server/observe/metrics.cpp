#include "server/observe/metrics.h"

#include <prometheus/text_serializer.h>

#include <chrono>
#include <iterator>
#include <utility>

#include "server/observe/batch_metrics.h"
#include "server/observe/key_metrics.h"
#include "server/observe/metric_families.h"
#include "server/observe/probe_routes.h"
#include "server/observe/process_metrics.h"
#include "server/observe/request_metrics.h"

namespace espalier::server {
namespace {

/// One more of what is in progress, as long as it lives.
class InProgress {
 public:
  explicit InProgress(prometheus::Gauge& gauge) : gauge_(gauge) { gauge_.Increment(); }
  ~InProgress() { gauge_.Decrement(); }
  InProgress(const InProgress&) = delete;
  InProgress& operator=(const InProgress&) = delete;

 private:
  prometheus::Gauge& gauge_;
};

}  // namespace

struct Metrics::Impl {
  const std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
  prometheus::Registry registry;
  RequestMetrics requests{registry};
  BatchMetrics batches{registry};
  KeyMetrics keys{registry};
  prometheus::Gauge& queue_tickets =
      gauge(registry, "espalier_queue_tickets", "Sequences waiting for a batch.");
  prometheus::Gauge& queue_tokens =
      gauge(registry, "espalier_queue_tokens", "Tokens of the sequences waiting for a batch.");
  prometheus::Gauge& ready =
      gauge(registry, "espalier_ready", "1: requests are taken; 0: loading or shutting down.");
  GaugeFamily& model_info =
      gauges(registry, "espalier_model_info", "Always 1; the labels say which model is served.");
  GaugeFamily& build_info =
      gauges(registry, "espalier_build_info", "Always 1; the labels say which build this is.");
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}

Metrics::~Metrics() = default;

std::vector<Route> Metrics::watch_routes(std::vector<Route> routes) {
  std::vector<std::string> paths;
  for (Route& route : routes) {
    paths.push_back(route.path);
    if (is_probe_route(route.path)) continue;
    route.handler = [&gauge = impl_->requests.in_progress(),
                     handler = std::move(route.handler)](const HttpRequest& request) {
      const InProgress one(gauge);
      return handler(request);
    };
  }
  announce_routes(paths);
  return routes;
}

void Metrics::announce_routes(const std::vector<std::string>& paths) {
  for (const auto& path : paths) impl_->requests.add_route(path);
}

void Metrics::announce_keys(const std::vector<std::string>& names) {
  for (const auto& name : names) impl_->keys.add_key(name);
}

void Metrics::set_model_info(const ModelInfo& info) {
  impl_->model_info
      .Add({{"model", label_value(info.model)},
            {"dtype", label_value(info.dtype)},
            {"dedup", label_value(info.dedup)},
            {"version", label_value(info.version)}})
      .Set(1);
}

void Metrics::set_build_info(const std::string& version, const std::string& commit) {
  impl_->build_info.Add({{"version", label_value(version)}, {"commit", label_value(commit)}})
      .Set(1);
}

void Metrics::set_ready(bool ready) {
  impl_->ready.Set(ready ? 1 : 0);
  if (ready) impl_->requests.end_loading();
}

void Metrics::on_batch(const scheduler::BatchReport& report) { impl_->batches.on_batch(report); }

void Metrics::on_request(const HttpExchange& exchange) { impl_->requests.on_request(exchange); }

void Metrics::on_stages(const RequestReport& report) { impl_->requests.on_stages(report); }

void Metrics::on_usage(const std::string& key_name, size_t tokens, size_t new_rows) {
  impl_->keys.on_usage(key_name, tokens, new_rows);
}

void Metrics::on_never_fits() { impl_->requests.on_never_fits(); }

void Metrics::on_abandoned(size_t requests) { impl_->requests.on_abandoned(requests); }

Totals Metrics::totals() const {
  const std::chrono::duration<double> uptime = std::chrono::steady_clock::now() - impl_->started;
  const auto count = [](double counter) { return static_cast<uint64_t>(counter); };
  const BatchMetrics& batches = impl_->batches;
  return {uptime.count(), impl_->requests.answered(), count(batches.tokens()),
          count(batches.compact_tokens()), count(batches.rows_saved())};
}

std::string Metrics::exposition(const scheduler::QueueDepth& depth) const {
  impl_->queue_tickets.Set(static_cast<double>(depth.tickets));
  impl_->queue_tokens.Set(static_cast<double>(depth.tokens));
  auto families = impl_->registry.Collect();
  auto process = collect_process_metrics();
  families.insert(families.end(), std::make_move_iterator(process.begin()),
                  std::make_move_iterator(process.end()));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace espalier::server
