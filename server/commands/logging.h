// Log lines on stderr: time, level, message. stdout belongs to the commands' output.
#pragma once

#include <string>

#include "server/observe/log_format.h"

namespace espalier::commands {

/// The format that `format` ("text", "json") names.
server::LogFormat log_format(const std::string& format);

/// `level`: debug, info, warn or error. Call once, before anything logs.
void start_logging(const std::string& level, server::LogFormat format);

/// Whether stderr is for people: then other things than log lines may be drawn on it.
bool log_is_text();

/// Says on stderr why the program ends with a failure: as a line of the log once that is JSON.
void report_failure(const std::string& message);

}  // namespace espalier::commands
