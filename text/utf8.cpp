#include "text/utf8.h"

#include <cstdint>
#include <cstring>

namespace espalier::text {
namespace {

/// What may follow a lead byte (Unicode 15, table 3-7): the code point's length in bytes, and the
/// range of the second byte, which shuts out overlong forms, surrogates and everything above
/// U+10FFFF.
struct LeadByte {
  size_t length;
  uint8_t second_min, second_max;
};

LeadByte lead_byte(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

DecodedCharacter decode_utf8(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const LeadByte lead = lead_byte(byte(at));
  if (lead.length == 0) return {};
  if (lead.length == 1) return {byte(at), 1, true};
  char32_t code_point = byte(at) & (0x7Fu >> lead.length);
  for (size_t i = 1; i < lead.length; ++i) {
    const uint8_t min = i == 1 ? lead.second_min : 0x80;
    const uint8_t max = i == 1 ? lead.second_max : 0xBF;
    if (at + i >= text.size() || byte(at + i) < min || byte(at + i) > max) {
      return {kReplacementCharacter, i, false};
    }
    code_point = code_point << 6 | (byte(at + i) & 0x3Fu);
  }
  return {code_point, lead.length, true};
}

void append_utf8(std::string& out, char32_t code_point) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
    return;
  }
  if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
  } else {
    if (code_point < 0x10000) {
      put(0xE0 | code_point >> 12);
    } else {
      put(0xF0 | code_point >> 18);
      put(0x80 | (code_point >> 12 & 0x3F));
    }
    put(0x80 | (code_point >> 6 & 0x3F));
  }
  put(0x80 | (code_point & 0x3F));
}

bool is_ascii(std::string_view text) {
  size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + at, 8);
    if ((word & 0x8080808080808080u) != 0) return false;
  }
  for (; at < text.size(); ++at) {
    if (static_cast<uint8_t>(text[at]) >= 0x80) return false;
  }
  return true;
}

bool is_valid_utf8(std::string_view text) {
  if (is_ascii(text)) return true;
  for (size_t at = 0; at < text.size();) {
    const DecodedCharacter character = decode_utf8(text, at);
    if (!character.valid) return false;
    at += character.length;
  }
  return true;
}

size_t character_boundary(std::string_view text, size_t at) {
  const auto continues = [&](size_t i) { return i < text.size() && (text[i] & 0xC0) == 0x80; };
  // No sequence is longer than four bytes: a continuation byte behind three others is ill-formed.
  for (size_t back = 0; back < 4 && back <= at; ++back) {
    if (!continues(at - back)) return at - back;
  }
  return at;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (size_t at = 0; at < text.size();) {
    const DecodedCharacter character = decode_utf8(text, at);
    append_utf8(out, character.code_point);
    at += character.length;
  }
  return out;
}

}  // namespace espalier::text
