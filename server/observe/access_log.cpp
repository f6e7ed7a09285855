#include "server/observe/access_log.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

#include "server/api/route_paths.h"
#include "server/observe/log_text.h"
#include "server/observe/probe_routes.h"
#include "server/observe/trace_context.h"

namespace espalier::server {
namespace {

/// Of a path below a route; a head may hold far longer ones.
constexpr size_t kPathBytesMax = 256;

/// Names and values, one after another.
class FieldWriter {
 public:
  FieldWriter(LogFormat format, std::string& out) : format_(format), out_(out) {
    out_ += format_ == LogFormat::kJson ? R"("message":"request")" : "request";
  }

  void add(std::string_view name, std::string_view value) {
    add_name(name);
    if (format_ == LogFormat::kText && is_word(value)) {
      out_ += value;
    } else {
      append_quoted(value, out_);
    }
  }
  void add(std::string_view name, uint64_t value) {
    add_name(name);
    fmt::format_to(std::back_inserter(out_), "{}", value);
  }
  void add(std::string_view name, double value) {
    add_name(name);
    if (std::isfinite(value)) {
      fmt::format_to(std::back_inserter(out_), "{:.3f}", value);
    } else {
      out_ += "null";
    }
  }

 private:
  /// Whether a value in text needs no quotes.
  static bool is_word(std::string_view value) {
    const auto in_word = [](char c) {
      return c > ' ' && c < '\x7f' && c != '"' && c != '\\' && c != '=';
    };
    return !value.empty() && std::ranges::all_of(value, in_word);
  }

  void add_name(std::string_view name) {
    if (format_ == LogFormat::kJson) {
      out_ += ',';
      append_quoted(name, out_);
      out_ += ':';
    } else {
      out_ += ' ';
      out_ += name;
      out_ += '=';
    }
  }

  LogFormat format_;
  std::string& out_;
};

}  // namespace

void append_access_line(const HttpExchange& exchange, LogFormat format, std::string& out) {
  const HttpRequest& request = exchange.request;
  FieldWriter fields(format, out);
  fields.add("request_id", request.id);
  if (!request.method.empty()) fields.add("method", std::string_view(request.method).substr(0, 32));
  fields.add("route", exchange.route);
  // Paths that are no route's are anybody's text.
  if (exchange.route != kOtherRoute && exchange.route != request.path)
    fields.add("path", std::string_view(request.path).substr(0, kPathBytesMax));
  fields.add("status", static_cast<uint64_t>(std::max(exchange.status, 0)));
  fields.add("duration_ms", 1e3 * exchange.seconds);
  if (!request.client_address.empty()) fields.add("client", request.client_address);
  if (!request.peer_address.empty() && request.peer_address != request.client_address)
    fields.add("peer", request.peer_address);
  fields.add("request_bytes", uint64_t{exchange.request_bytes});
  fields.add("response_bytes", uint64_t{exchange.response_bytes});
  for (const auto& [name, value] : exchange.log)
    std::visit([&, &field = name](const auto& held) { fields.add(field, held); }, value);
  const std::string* const traceparent = request.fields.find("traceparent");
  const auto trace = traceparent != nullptr ? parse_traceparent(*traceparent) : std::nullopt;
  if (trace) {
    fields.add("trace_id", trace->trace_id);
    fields.add("span_id", trace->span_id);
  }
}

AccessLog::AccessLog(LogFormat format) : format_(format) {
  const auto everything = spdlog::default_logger();
  logger_ = std::make_shared<spdlog::logger>(kStructuredLogger, everything->sinks().begin(),
                                             everything->sinks().end());
  logger_->set_level(everything->level());
}

void AccessLog::on_request(const HttpExchange& exchange) const {
  // An open page asks for /stats each second.
  const bool frequent = is_probe_route(exchange.route) || exchange.route == kStatsPath;
  const auto level = frequent ? spdlog::level::debug : spdlog::level::info;
  if (!logger_->should_log(level)) return;
  std::string line;
  line.reserve(512);
  append_access_line(exchange, format_, line);
  logger_->log(level, std::string_view(line));
}

}  // namespace espalier::server
