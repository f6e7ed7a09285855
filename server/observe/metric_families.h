// How this server's Prometheus metrics are made: names with help, buckets, labels.
//
// Thread contract: functions without state; what they return may be used from any thread.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/summary.h>

#include <string>
#include <string_view>

namespace espalier::server {

using CounterFamily = prometheus::Family<prometheus::Counter>;
using GaugeFamily = prometheus::Family<prometheus::Gauge>;
using HistogramFamily = prometheus::Family<prometheus::Histogram>;
using Buckets = prometheus::Histogram::BucketBoundaries;

CounterFamily& counters(prometheus::Registry& registry, const char* name, const char* help);
GaugeFamily& gauges(prometheus::Registry& registry, const char* name, const char* help);
HistogramFamily& histograms(prometheus::Registry& registry, const char* name, const char* help);

// One series of such a family, present with zero at once.
prometheus::Counter& counter(prometheus::Registry& registry, const char* name, const char* help,
                             const prometheus::Labels& labels = {});
prometheus::Gauge& gauge(prometheus::Registry& registry, const char* name, const char* help,
                         const prometheus::Labels& labels = {});
prometheus::Histogram& histogram(prometheus::Registry& registry, const char* name, const char* help,
                                 const Buckets& buckets, const prometheus::Labels& labels = {});
/// Median, 90th and 99th percentile of the last five minutes, each with its error.
prometheus::Summary& summary(prometheus::Registry& registry, const char* name, const char* help,
                             const prometheus::Labels& labels = {});

/// 0.1 ms to 5 minutes: from a planned batch to the longest request.
const Buckets& duration_buckets();
/// 1 to 65 536 in powers of two.
const Buckets& count_buckets();

/// A name that somebody chose, as a label's value: valid UTF-8 without control characters, of at
/// most 128 bytes. Prometheus refuses everything that a server exposes if one value is no UTF-8.
std::string label_value(std::string_view name);

}  // namespace espalier::server
