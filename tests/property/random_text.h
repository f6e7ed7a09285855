// Random text that hits the places where tokenizers differ: seams, runs of white space, marks that
// compose, characters of every plane, bytes that are no text.
#pragma once

#include <cstddef>
#include <iterator>
#include <random>
#include <string>
#include <string_view>

#include "text/utf8.h"

namespace espalier::text {

/// A number in [0, end).
inline size_t below(std::mt19937& random, size_t end) { return random() % end; }

inline char32_t random_code_point(std::mt19937& random) {
  static constexpr char32_t kEnds[] = {0x80,   0x80,   0x250,   0x370,   0x800,   0x1200,
                                       0x3100, 0xA000, 0x10000, 0x20000, 0x110000};
  const auto c = static_cast<char32_t>(below(random, kEnds[below(random, std::size(kEnds))]));
  return c >= 0xD800 && c <= 0xDFFF ? U'\u4E2D' : c;
}

/// About `parts` words, signs, characters or stretches of white space; valid UTF-8 unless `broken`.
inline std::string random_text(std::mt19937& random, size_t parts, bool broken) {
  // clang-format off
  static constexpr std::string_view kParts[] = {
      "a", "the", " the", " of", "Tokenizer", "it's", "'S", "'\u017F", "'ll", "'", "'l", "'RE",
      "1", "12345", " 7", "\u0663", "\u00BD", " ", " ", "  ", "     ", "\t", "\n", "\n\n", "\r\n",
      "\r", "\u00A0", "\u3000", "\u2028", "\u0085", "\u180E", "\u200B", "!", ".", ", ", "...",
      "!!\n", "<", ">:", "<|im_end|>", "<|im_", "end|>", "<Query>: ", "{document}", "\u0301",
      "\u0316", "e\u0301", "\u03B1\u0316\u0313", "   <|im_end|>", "\u00E9", "\u1112\u1161\u11AB",
      "\uD55C", "\u1161", "\u0F73", "\u0345", "\u3099", "\u304B", "\u4E2D", "\u6587\u672C",
      "\u7684", "\uFF0C", "\U0001F600", "\U0001F468\u200D", "\U00020000", "\uFFFD", "\u212B",
      "\u1E0A\u0323", "\U0001D15E", "x\u0323\u0307", "word", "=", "():\n    return", "_name",
      "\x01",
  };
  // clang-format on
  static constexpr std::string_view kBroken[] = {
      "\xFF", "\x80", "\xE4\xB8", "\xF0\x9F", "\xC3", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xAD"};
  std::string text;
  for (size_t i = 0; i < parts; ++i) {
    const size_t kind = below(random, 20);
    if (kind < 4) {
      append_utf8(text, random_code_point(random));
    } else if (broken && kind == 4) {
      text += kBroken[below(random, std::size(kBroken))];
    } else if (kind == 5 && below(random, 20) == 0) {
      const std::string_view part = kParts[below(random, std::size(kParts))];
      for (size_t repeats = below(random, 60); repeats-- > 0;) text += part;
    } else {
      text += kParts[below(random, std::size(kParts))];
    }
  }
  return text;
}

}  // namespace espalier::text
