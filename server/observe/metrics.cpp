#include "server/observe/metrics.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>

#include "server/observe/key_metrics.h"
#include "server/observe/metric_families.h"
#include "server/observe/model_metrics.h"
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

/// What is counted of models, in a registry of their own: what they are called is known later than
/// the first scrape.
struct ModelSet {
  explicit ModelSet(const std::vector<prometheus::Labels>& labels) {
    for (const auto& of_model : labels)
      models.push_back(std::make_unique<ModelMetrics>(registry, of_model));
  }

  prometheus::Registry registry;
  std::vector<std::unique_ptr<ModelMetrics>> models;
};

}  // namespace

struct Metrics::Impl {
  std::shared_ptr<const ModelSet> models() const {
    const std::lock_guard lock(models_mutex);
    return model_set;
  }

  const std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
  prometheus::Registry registry;
  RequestMetrics requests{registry};
  KeyMetrics keys{registry};
  prometheus::Counter& idle_seconds =
      counter(registry, "espalier_worker_idle_seconds_total",
              "Time that the worker stood still although inputs waited.");
  prometheus::Histogram& idle_gaps =
      histogram(registry, "espalier_worker_idle_duration_seconds",
                "Time that the worker stood still before a batch although inputs waited.",
                duration_buckets());
  prometheus::Gauge& ready =
      gauge(registry, "espalier_ready", "1: requests are taken; 0: loading or shutting down.");
  GaugeFamily& model_info =
      gauges(registry, "espalier_model_info", "Always 1; the labels say which model is served.");
  GaugeFamily& build_info =
      gauges(registry, "espalier_build_info", "Always 1; the labels say which build this is.");
  mutable std::mutex models_mutex;
  std::shared_ptr<const ModelSet> model_set =  // guarded by models_mutex
      std::make_shared<ModelSet>(std::vector<prometheus::Labels>{{}});
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

void Metrics::announce_models(const std::vector<ModelInfo>& models) {
  std::vector<prometheus::Labels> labels;
  for (const ModelInfo& info : models) {
    const std::string name = label_value(info.model);
    labels.push_back(models.size() > 1 ? prometheus::Labels{{"model", name}}
                                       : prometheus::Labels{});
    impl_->model_info
        .Add({{"model", name},
              {"dtype", label_value(info.dtype)},
              {"dedup", label_value(info.dedup)},
              {"version", label_value(info.version)}})
        .Set(1);
  }
  const auto set = std::make_shared<const ModelSet>(labels);
  const std::lock_guard lock(impl_->models_mutex);
  impl_->model_set = set;
}

void Metrics::set_build_info(const std::string& version, const std::string& commit) {
  impl_->build_info.Add({{"version", label_value(version)}, {"commit", label_value(commit)}})
      .Set(1);
}

void Metrics::set_ready(bool ready) {
  impl_->ready.Set(ready ? 1 : 0);
  if (ready) impl_->requests.end_loading();
}

void Metrics::on_batch(const scheduler::BatchReport& report) {
  const auto set = impl_->models();
  if (report.model < set->models.size()) set->models[report.model]->on_batch(report);
  if (report.interlude) return;
  impl_->idle_seconds.Increment(report.idle_seconds);
  impl_->idle_gaps.Observe(report.idle_seconds);
}

void Metrics::on_request(const HttpExchange& exchange) { impl_->requests.on_request(exchange); }

void Metrics::on_stages(size_t model, const RequestReport& report) {
  const auto set = impl_->models();
  if (model < set->models.size()) set->models[model]->on_stages(report);
}

void Metrics::on_usage(const std::string& key_name, size_t tokens, size_t new_rows) {
  impl_->keys.on_usage(key_name, tokens, new_rows);
}

void Metrics::on_never_fits() { impl_->requests.on_never_fits(); }

void Metrics::on_abandoned(size_t requests) { impl_->requests.on_abandoned(requests); }

Totals Metrics::totals() const {
  Totals all = totals(0);
  for (size_t m = 1; m < impl_->models()->models.size(); ++m) {
    const Totals one = totals(m);
    all.requests += one.requests;
    all.tokens += one.tokens;
    all.computed_rows += one.computed_rows;
    all.rows_saved += one.rows_saved;
  }
  return all;
}

Totals Metrics::totals(size_t model) const {
  const std::chrono::duration<double> uptime = std::chrono::steady_clock::now() - impl_->started;
  const auto count = [](double counter) { return static_cast<uint64_t>(counter); };
  const auto set = impl_->models();
  const BatchMetrics& batches = set->models[model]->batches();
  return {uptime.count(), set->models[model]->answered(), count(batches.tokens()),
          count(batches.compact_tokens()), count(batches.rows_saved())};
}

std::string Metrics::exposition(const std::vector<scheduler::QueueDepth>& depths) const {
  const auto set = impl_->models();
  for (size_t m = 0; m < std::min(depths.size(), set->models.size()); ++m)
    set->models[m]->set_queue(depths[m]);
  auto families = impl_->registry.Collect();
  for (auto&& more : {set->registry.Collect(), collect_process_metrics()})
    families.insert(families.end(), more.begin(), more.end());
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace espalier::server
