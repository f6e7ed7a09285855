// UTF-8 by code points: decoding that never fails, and the lossy reading of invalid bytes.
//
// Thread contract: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace espalier::text {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;

struct DecodedCharacter {
  char32_t code_point = kReplacementCharacter;
  size_t length = 1;   // bytes read, at least 1
  bool valid = false;  // false: `length` bytes stand for one U+FFFD
};

/// The character that starts at byte `at` (< text.size()). Ill-formed bytes are grouped into
/// "maximal subparts", as Unicode 15 section 3.9 (table 3-8) recommends and as Rust's and the Web's
/// decoders do.
DecodedCharacter decode_utf8(std::string_view text, size_t at);

void append_utf8(std::string& out, char32_t code_point);

bool is_ascii(std::string_view text);
bool is_valid_utf8(std::string_view text);

/// The largest position <= `at` (<= text.size()) where a character, or a stretch of ill-formed
/// bytes that is one U+FFFD, starts whatever is behind it, or `text` ends.
size_t character_boundary(std::string_view text, size_t at);

/// `text` with U+FFFD for every ill-formed sequence.
std::string replace_invalid_utf8(std::string_view text);

}  // namespace espalier::text
