#include "server/observe/process_metrics.h"

#include "server/observe/process_figures.h"

namespace espalier::server {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily family(const char* name, const char* help, MetricType type, double value) {
  MetricFamily family{name, help, type, {}};
  auto& metric = family.metric.emplace_back();
  (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  return family;
}

MetricFamily gauge_family(const char* name, const char* help, double value) {
  return family(name, help, MetricType::Gauge, value);
}

}  // namespace

std::vector<MetricFamily> collect_process_metrics() {
  const auto figures = read_process_figures();
  if (!figures) return {};
  const auto of = [](uint64_t value) { return static_cast<double>(value); };
  return {
      family("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.",
             MetricType::Counter, figures->cpu_seconds),
      gauge_family("process_resident_memory_bytes", "Resident memory size in bytes.",
                   of(figures->resident_bytes)),
      gauge_family("process_virtual_memory_bytes", "Virtual memory size in bytes.",
                   of(figures->virtual_bytes)),
      gauge_family("process_open_fds", "Number of open file descriptors.", of(figures->open_fds)),
      gauge_family("process_max_fds", "Maximum number of open file descriptors.",
                   of(figures->max_fds)),
      gauge_family("process_threads", "Number of OS threads in the process.", of(figures->threads)),
      gauge_family("process_start_time_seconds",
                   "Start time of the process since unix epoch in seconds.", figures->start_time),
      gauge_family("espalier_memory_limit_bytes",
                   "Memory that the process may use: its control group's limit, or the machine's "
                   "memory.",
                   of(figures->memory_limit_bytes)),
  };
}

}  // namespace espalier::server
