// One log line a request: what it was, how it ended, what it took. Never texts, token ids, vectors,
// keys, or paths that are no route's.
//
// Thread contract: any thread.
#pragma once

#include <memory>
#include <string>

#include "server/http/http_server.h"
#include "server/observe/log_format.h"

namespace spdlog {
class logger;
}

namespace espalier::server {

/// Appends the request as "request method=POST route=… status=200 …", or as members of a JSON
/// object. What the client sent cannot break the line.
void append_access_line(const HttpExchange& exchange, LogFormat format, std::string& out);

class AccessLog {
 public:
  /// Writes where the default logger writes, from its level on; `format` must be its format.
  explicit AccessLog(LogFormat format);

  /// At level info; probes' requests, and those for /stats, at level debug.
  void on_request(const HttpExchange& exchange) const;

 private:
  LogFormat format_;
  std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace espalier::server
