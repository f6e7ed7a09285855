// The text of header fields.
//
// Thread contract: functions without state.
#pragma once

#include <string_view>

namespace espalier::server {

/// `text` without the blanks and tabs around it (RFC 9110, section 5.6.3: OWS).
constexpr std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace espalier::server
