// Names from files in messages.
//
// Thread contract: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace espalier::engine {

/// `text` in quotes for a message: short, and free of control characters.
inline std::string in_quotes(std::string_view text) {
  constexpr size_t kMaxQuotedBytes = 128;
  std::string out = "'";
  for (const char c : text.substr(0, kMaxQuotedBytes)) {
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  if (text.size() > kMaxQuotedBytes) out += "…";
  return out + "'";
}

}  // namespace espalier::engine
