#include "server/observe/log_text.h"

#include <algorithm>

#include "text/utf8.h"

namespace espalier::server {
namespace {

enum class Quotes : uint8_t { kKept, kEscaped };

/// C0, DEL and C1, which terminals obey too.
bool is_control(char32_t code_point) {
  return code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0);
}

void append_unicode_escape(char32_t code_point, std::string& out) {
  constexpr char kDigits[] = "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += kDigits[code_point >> shift & 15U];
}

void append_control(char32_t code_point, std::string& out) {
  switch (code_point) {
    case '\n':
      out += "\\n";
      break;
    case '\r':
      out += "\\r";
      break;
    case '\t':
      out += "\\t";
      break;
    default:
      append_unicode_escape(code_point, out);
  }
}

void append(std::string_view text, Quotes quotes, std::string& out) {
  const auto plain = [&](char c) {
    return c >= ' ' && c < '\x7f' && (quotes == Quotes::kKept || (c != '"' && c != '\\'));
  };
  if (std::ranges::all_of(text, plain)) {  // nearly always
    out += text;
    return;
  }
  for (size_t at = 0; at < text.size();) {
    const auto character = text::decode_utf8(text, at);
    at += character.length;
    const char32_t code_point =
        character.valid ? character.code_point : text::kReplacementCharacter;
    if (is_control(code_point)) {
      append_control(code_point, out);
      continue;
    }
    const bool escaped = code_point == '"' || code_point == '\\';
    if (escaped && quotes == Quotes::kEscaped) out += '\\';
    text::append_utf8(out, code_point);
  }
}

}  // namespace

void append_printable(std::string_view text, std::string& out) { append(text, Quotes::kKept, out); }

void append_quoted(std::string_view text, std::string& out) {
  out += '"';
  append(text, Quotes::kEscaped, out);
  out += '"';
}

}  // namespace espalier::server
