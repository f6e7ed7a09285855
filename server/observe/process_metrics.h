// The process's figures under the names that Prometheus' own client libraries give them.
//
// Thread contract: any thread.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

namespace espalier::server {

/// As of now; empty if the system does not tell.
std::vector<prometheus::MetricFamily> collect_process_metrics();

}  // namespace espalier::server
