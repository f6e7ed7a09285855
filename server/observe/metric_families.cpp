#include "server/observe/metric_families.h"

#include <algorithm>
#include <chrono>

#include "text/utf8.h"

namespace espalier::server {
namespace {

constexpr size_t kLabelBytesMax = 128;

}  // namespace

CounterFamily& counters(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

GaugeFamily& gauges(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}

HistogramFamily& histograms(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

prometheus::Counter& counter(prometheus::Registry& registry, const char* name, const char* help,
                             const prometheus::Labels& labels) {
  return counters(registry, name, help).Add(labels);
}

prometheus::Gauge& gauge(prometheus::Registry& registry, const char* name, const char* help,
                         const prometheus::Labels& labels) {
  return gauges(registry, name, help).Add(labels);
}

prometheus::Histogram& histogram(prometheus::Registry& registry, const char* name, const char* help,
                                 const Buckets& buckets, const prometheus::Labels& labels) {
  return histograms(registry, name, help).Add(labels, buckets);
}

prometheus::Summary& summary(prometheus::Registry& registry, const char* name, const char* help,
                             const prometheus::Labels& labels) {
  using prometheus::Summary;
  return prometheus::BuildSummary().Name(name).Help(help).Register(registry).Add(
      labels, Summary::Quantiles{{0.5, 0.02}, {0.9, 0.01}, {0.99, 0.001}}, std::chrono::minutes(5),
      5);
}

const Buckets& duration_buckets() {
  static const Buckets buckets{0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                               0.5,    1,      2.5,   5,      10,    30,   60,    120,  300};
  return buckets;
}

const Buckets& count_buckets() {
  static const Buckets buckets = [] {
    Buckets powers;
    for (double power = 1; power <= 65536; power *= 2) powers.push_back(power);
    return powers;
  }();
  return buckets;
}

std::string label_value(std::string_view name) {
  std::string value = text::replace_invalid_utf8(name);
  value.resize(text::character_boundary(value, std::min(value.size(), kLabelBytesMax)));
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  std::ranges::replace_if(value, control, '?');
  return value;
}

}  // namespace espalier::server
