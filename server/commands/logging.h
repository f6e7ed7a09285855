// Log lines on stderr: time, level, message. stdout belongs to the commands' output.
#pragma once

#include <string>

namespace espalier::commands {

/// `level`: debug, info, warn or error. Call once, before anything logs.
void start_logging(const std::string& level);

}  // namespace espalier::commands
