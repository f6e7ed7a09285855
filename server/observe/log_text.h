// Text from anywhere as part of a log line: it can neither end the line nor command a terminal.
//
// Thread contract: functions without state.
#pragma once

#include <string>
#include <string_view>

namespace espalier::server {

/// Appends `text` with control characters as \n, \u001b, …, and U+FFFD for what is no UTF-8.
void append_printable(std::string_view text, std::string& out);
/// Appends `text` as a JSON string, quotes included, likewise.
void append_quoted(std::string_view text, std::string& out);

}  // namespace espalier::server
