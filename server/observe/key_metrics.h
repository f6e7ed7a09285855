// What each API key used, for Prometheus: whoever runs the server may bill by it.
//
// Thread contract: add_key() before the first request; on_usage() from any thread.
#pragma once

#include <string>
#include <unordered_map>

#include "server/observe/metric_families.h"

namespace espalier::server {

class KeyMetrics {
 public:
  explicit KeyMetrics(prometheus::Registry& registry);

  /// Counts the key called `name` from zero on; again is nothing.
  void add_key(const std::string& name);
  /// One request of that key: its tokens, and the rows that were computed for it. The empty name,
  /// which is everybody's on a server without keys, and one that was not added count for nothing.
  void on_usage(const std::string& name, size_t tokens, size_t new_rows);

 private:
  struct KeySeries {
    prometheus::Counter* requests = nullptr;
    prometheus::Counter* tokens = nullptr;
    prometheus::Counter* rows = nullptr;
  };
  CounterFamily& requests_;
  CounterFamily& tokens_;
  CounterFamily& rows_;
  std::unordered_map<std::string, KeySeries> keys_;
};

}  // namespace espalier::server
