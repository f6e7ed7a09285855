// What requests tell Prometheus: by route and status, why they were turned away.
//
// Thread contract: add_route() before the first request; every other member from any thread.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <shared_mutex>
#include <string>
#include <unordered_map>

#include "server/http/http_server.h"
#include "server/observe/metric_families.h"

namespace espalier::server {

class RequestMetrics {
 public:
  explicit RequestMetrics(prometheus::Registry& registry);

  /// Counts `path` from zero on; again is nothing.
  void add_route(const std::string& path);

  /// Counts the request, also under the reason if its status says that it was turned away, and the
  /// inputs that its log fields name. A route that was not added counts as kOtherRoute.
  void on_request(const HttpExchange& exchange);
  /// From now on 503 means that the server shuts down, no longer that it loads.
  void end_loading() { loading_ = false; }
  void on_never_fits();
  void on_abandoned(size_t requests);
  prometheus::Gauge& in_progress() { return in_progress_; }

 private:
  static constexpr int kStatusMin = 100;
  static constexpr size_t kStatuses = 500;

  /// The series of one route, so that a request looks none of them up by its labels.
  struct RouteSeries {
    std::string path;
    prometheus::Histogram* seconds = nullptr;
    prometheus::Counter* request_bytes = nullptr;
    prometheus::Counter* response_bytes = nullptr;
    std::array<std::atomic<prometheus::Counter*>, kStatuses> by_status{};  // null: none yet
  };
  RouteSeries& series_of(const std::string& path);
  prometheus::Counter& counter_of(RouteSeries& route, int status);

  CounterFamily& requests_;
  HistogramFamily& request_seconds_;
  CounterFamily& request_bytes_;
  CounterFamily& response_bytes_;
  CounterFamily& rejected_;
  prometheus::Counter& too_large_;
  prometheus::Counter& queue_full_;
  prometheus::Counter& deadline_;
  prometheus::Counter& loading_rejected_;
  prometheus::Counter& shutting_down_;
  prometheus::Counter& unauthorized_;
  prometheus::Counter& abandoned_;
  prometheus::Gauge& in_progress_;
  prometheus::Histogram& inputs_;
  std::atomic<bool> loading_ = true;
  std::shared_mutex routes_mutex_;  // routes are added while others are served
  std::unordered_map<std::string, std::unique_ptr<RouteSeries>> routes_;  // guarded by it
};

}  // namespace espalier::server
