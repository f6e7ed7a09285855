#include "server/observe/request_metrics.h"

#include <algorithm>

#include "server/observe/probe_routes.h"

namespace espalier::server {

RequestMetrics::RequestMetrics(prometheus::Registry& registry)
    : requests_(counters(registry, "espalier_requests_total",
                         "HTTP requests answered, by route and status; 499: the client had gone.")),
      request_seconds_(histograms(registry, "espalier_request_duration_seconds",
                                  "From a request's head to its answer's last byte, by route.")),
      request_bytes_(counters(registry, "espalier_request_bytes_total",
                              "Bytes of requests' bodies as sent, compressed ones so, by route.")),
      response_bytes_(counters(registry, "espalier_response_bytes_total",
                               "Bytes of answers' bodies, by route.")),
      rejected_(counters(
          registry, "espalier_rejected_total",
          "Requests turned away: larger than the limits, queue (or memory for bodies) full, "
          "deadline missed, server loading or shutting down, no valid API key.")),
      too_large_(rejected_.Add({{"reason", "too_large"}})),
      queue_full_(rejected_.Add({{"reason", "queue_full"}})),
      deadline_(rejected_.Add({{"reason", "deadline"}})),
      loading_rejected_(rejected_.Add({{"reason", "loading"}})),
      shutting_down_(rejected_.Add({{"reason", "shutting_down"}})),
      unauthorized_(rejected_.Add({{"reason", "unauthorized"}})),
      abandoned_(counter(registry, "espalier_abandoned_requests_total",
                         "Accepted requests answered 503 because a shutdown ran out of time.")),
      in_progress_(gauge(registry, "espalier_requests_in_progress",
                         "Requests that have been read and wait for their answer; probes and "
                         "scrapes are left out.")),
      inputs_(histogram(registry, "espalier_request_inputs",
                        "Inputs or documents of a request that was read.", count_buckets())) {
  add_route(kOtherRoute);
}

void RequestMetrics::add_route(const std::string& path) {
  const std::lock_guard lock(routes_mutex_);
  auto& route = routes_[path];
  if (route) return;
  route = std::make_unique<RouteSeries>();
  route->path = path;
  route->seconds = &request_seconds_.Add({{"route", path}}, duration_buckets());
  route->request_bytes = &request_bytes_.Add({{"route", path}});
  route->response_bytes = &response_bytes_.Add({{"route", path}});
  // Present with zero before the first request: a rate over a missing series is no rate.
  counter_of(*route, path == kOtherRoute ? 404 : 200);
}

prometheus::Counter& RequestMetrics::counter_of(RouteSeries& route, int status) {
  const int index = std::clamp(status - kStatusMin, 0, static_cast<int>(kStatuses) - 1);
  auto& place = route.by_status[static_cast<size_t>(index)];
  auto* counter = place.load(std::memory_order_acquire);
  if (counter == nullptr) {
    // Two threads that come here at once get the same counter.
    counter =
        &requests_.Add({{"route", route.path}, {"status", std::to_string(kStatusMin + index)}});
    place.store(counter, std::memory_order_release);
  }
  return *counter;
}

RequestMetrics::RouteSeries& RequestMetrics::series_of(const std::string& path) {
  const std::shared_lock lock(routes_mutex_);
  const auto found = routes_.find(path);
  return *(found != routes_.end() ? found : routes_.find(kOtherRoute))->second;
}

void RequestMetrics::on_request(const HttpExchange& exchange) {
  RouteSeries& route = series_of(exchange.route);
  counter_of(route, exchange.status).Increment();
  route.seconds->Observe(exchange.seconds);
  route.request_bytes->Increment(static_cast<double>(exchange.request_bytes));
  route.response_bytes->Increment(static_cast<double>(exchange.response_bytes));
  for (const auto& [name, value] : exchange.log) {
    const auto* const inputs = name == "inputs" ? std::get_if<uint64_t>(&value) : nullptr;
    // None: it was refused before they were counted.
    if (inputs != nullptr && *inputs > 0) inputs_.Observe(static_cast<double>(*inputs));
  }
  switch (exchange.status) {
    case 401:
    case 403:
      unauthorized_.Increment();
      break;
    case 413:
    case 431:
      too_large_.Increment();
      break;
    case 429:
      queue_full_.Increment();
      break;
    case 503:  // also what probes are told while draining, which are not turned away
      if (!is_probe_route(exchange.route)) {
        (loading_ ? loading_rejected_ : shutting_down_).Increment();
      }
      break;
    case 504:
      deadline_.Increment();
      break;
    default:
      break;
  }
}

void RequestMetrics::on_never_fits() { too_large_.Increment(); }

void RequestMetrics::on_abandoned(size_t requests) {
  abandoned_.Increment(static_cast<double>(requests));
}

}  // namespace espalier::server
