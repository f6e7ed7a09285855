// GPT-2's byte-level alphabet: a printable character for each of the 256 bytes, in which the
// entries of a byte-level BPE vocabulary are written (` ` is `Ġ`). Source: `bytes_to_unicode` in
// openai/gpt-2, src/encoder.py.
//
// Thread contract: pure functions on constants.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "text/utf8.h"

namespace espalier::text {

/// Bytes that print as themselves in Latin-1 keep their code point; the other 68 get U+0100,
/// U+0101, … in the order of their values.
constexpr std::array<char32_t, 256> byte_level_alphabet() {
  std::array<char32_t, 256> alphabet{};
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    alphabet[byte] = printable ? byte : next++;
  }
  return alphabet;
}

/// `bytes` in the alphabet, as the vocabulary writes them.
inline std::string to_byte_level(std::string_view bytes) {
  static constexpr std::array<char32_t, 256> kAlphabet = byte_level_alphabet();
  std::string out;
  out.reserve(2 * bytes.size());
  for (const char byte : bytes) append_utf8(out, kAlphabet[static_cast<unsigned char>(byte)]);
  return out;
}

/// The bytes that `content` stands for, or nothing if it is not in the alphabet.
inline std::optional<std::string> from_byte_level(std::string_view content) {
  static const std::unordered_map<char32_t, char> kBytes = [] {
    std::unordered_map<char32_t, char> bytes;
    const auto alphabet = byte_level_alphabet();
    for (size_t i = 0; i < alphabet.size(); ++i) bytes.emplace(alphabet[i], static_cast<char>(i));
    return bytes;
  }();
  std::string out;
  for (size_t at = 0; at < content.size();) {
    const DecodedCharacter character = decode_utf8(content, at);
    const auto byte = kBytes.find(character.code_point);
    if (byte == kBytes.end()) return std::nullopt;
    out.push_back(byte->second);
    at += character.length;
  }
  return out;
}

}  // namespace espalier::text
