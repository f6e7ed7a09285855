#include "server/commands/logging.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <iostream>
#include <memory>

#include "server/observe/stderr_sink.h"

namespace espalier::commands {
namespace {

// Until start_logging(), and for everything that is no log line.
server::LogFormat chosen_format = server::LogFormat::kText;

/// A closed stderr would be the next file or connection that is opened: clients would be sent the
/// log.
void occupy_standard_descriptors() {
  int descriptor = -1;
  do {
    descriptor = open("/dev/null", O_RDWR);
  } while (descriptor >= 0 && descriptor <= STDERR_FILENO);
  if (descriptor >= 0) close(descriptor);
}

}  // namespace

server::LogFormat log_format(const std::string& format) {
  return format == "json" ? server::LogFormat::kJson : server::LogFormat::kText;
}

void start_logging(const std::string& level, server::LogFormat format) {
  occupy_standard_descriptors();
  chosen_format = format;
  auto sink = std::make_shared<server::StderrSink>();
  sink->set_formatter(server::make_log_formatter(format));
  auto logger = std::make_shared<spdlog::logger>("espalier", std::move(sink));
  logger->set_level(spdlog::level::from_str(level));
  // Not set_default_logger(), nor a pattern: both would give the sink another formatter.
  spdlog::set_default_logger(std::move(logger));
}

bool log_is_text() { return chosen_format == server::LogFormat::kText; }

void report_failure(const std::string& message) {
  if (chosen_format == server::LogFormat::kJson) {
    spdlog::critical("{}", message);
  } else {
    std::cerr << "espalier: " << message << '\n';
  }
}

}  // namespace espalier::commands
