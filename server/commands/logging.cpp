#include "server/commands/logging.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace espalier::commands {

void start_logging(const std::string& level) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("espalier"));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v");
  spdlog::set_level(spdlog::level::from_str(level));
  spdlog::flush_on(spdlog::level::info);
}

}  // namespace espalier::commands
