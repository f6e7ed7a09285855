#include "server/commands/logging.h"

#include <spdlog/spdlog.h>

#include <iostream>
#include <memory>

#include "server/observe/stderr_sink.h"

namespace espalier::commands {
namespace {

// Until start_logging(), and for everything that is no log line.
server::LogFormat chosen_format = server::LogFormat::kText;

}  // namespace

server::LogFormat log_format(const std::string& format) {
  return format == "json" ? server::LogFormat::kJson : server::LogFormat::kText;
}

void start_logging(const std::string& level, server::LogFormat format) {
  chosen_format = format;
  auto sink = std::make_shared<server::StderrSink>();
  sink->set_formatter(server::make_log_formatter(format));
  auto logger = std::make_shared<spdlog::logger>("espalier", std::move(sink));
  logger->set_level(spdlog::level::from_str(level));
  // Not set_default_logger(), nor a pattern: both would give the sink another formatter.
  spdlog::set_default_logger(std::move(logger));
}

void report_failure(const std::string& message) {
  if (chosen_format == server::LogFormat::kJson) {
    spdlog::critical("{}", message);
  } else {
    std::cerr << "espalier: " << message << '\n';
  }
}

}  // namespace espalier::commands
