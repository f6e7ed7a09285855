// Prometheus metrics, all present with zero from the start. prometheus-cpp is behind this header:
// batch_metrics.cpp, request_metrics.cpp, … use it, nothing outside of this folder does.
//
// Thread contract: announce_keys() before the first request, announce_models() before the
// first batch; every other member may be called from
// any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "scheduler/scheduler.h"
#include "server/http/http_server.h"
#include "server/service/request_report.h"

namespace espalier::server {

/// The labels of espalier_model_info.
struct ModelInfo {
  std::string model;    // its name in answers
  std::string dtype;    // number format of the matrix products
  std::string dedup;    // --dedup
  std::string version;  // of the server
};

/// Since the start.
struct Totals {
  double uptime_seconds = 0;
  uint64_t requests = 0;       // that the model answered, not those of who only looks
  uint64_t tokens = 0;         // of finished batches
  uint64_t computed_rows = 0;  // for them
  uint64_t rows_saved = 0;     // the difference
};

class Metrics final : public scheduler::SchedulerObserver {
 public:
  Metrics();
  ~Metrics() override;

  /// What a server is about to serve: announces the routes, and counts their requests while they
  /// are in a handler (probes excepted). This object must outlive the routes.
  std::vector<Route> watch_routes(std::vector<Route> routes);
  /// Route::path of each, counted from zero on. Requests of other routes count as kOtherRoute. May
  /// be called again for more.
  void announce_routes(const std::vector<std::string>& paths);
  /// Names of API keys, counted from zero on.
  void announce_keys(const std::vector<std::string>& names);
  /// The models, by the scheduler's index. With several of them, what is counted of a model has the
  /// label `model`; with one, and before this is called, it has none.
  void announce_models(const std::vector<ModelInfo>& models);
  void set_build_info(const std::string& version, const std::string& commit);
  /// Whether the server takes requests: not while it loads a model, nor while it drains.
  void set_ready(bool ready);

  void on_batch(const scheduler::BatchReport& report) override;
  /// Counts the request, also under the reason if its status says that it was turned away. Its log
  /// field `inputs`, if there is one, is how many it had.
  void on_request(const HttpExchange& exchange);
  /// Stages of a request that `model` computed.
  void on_stages(size_t model, const RequestReport& report);
  /// What a computed request used: its tokens, and the rows that were computed for it. `key_name`
  /// is one of announce_keys(); others, and the empty one, count for nothing.
  void on_usage(const std::string& key_name, size_t tokens, size_t new_rows);
  /// A request that is larger than anything that may wait (its status, 400, does not tell).
  void on_never_fits();
  /// Requests answered 503 because a drain ran out of time.
  void on_abandoned(size_t requests);

  /// Of all models, and of each.
  Totals totals() const;
  Totals totals(size_t model) const;

  /// The exposition text (version 0.0.4), with the queue's depth as of now, by model.
  std::string exposition(const std::vector<scheduler::QueueDepth>& depths) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace espalier::server
