// Routes that machines ask every few seconds: they answer while the model is busy, and are of no
// interest in a log.
//
// Thread contract: function without state.
#pragma once

#include <string_view>

namespace espalier::server {

inline bool is_probe_route(std::string_view route) {
  return route == "/health" || route == "/livez" || route == "/readyz" || route == "/metrics";
}

}  // namespace espalier::server
