#include "text/word_scanner.h"

#include <cstdint>
#include <string>

#include "text/split_pattern.h"
#include "text/utf8.h"

namespace espalier::text {
namespace {

bool is_surrogate(char32_t code_point) { return code_point >= 0xD800 && code_point <= 0xDFFF; }

/// Gives `value` to the code points that match `pattern`, a class repeated with `+`.
void mark_matches(std::string_view pattern, uint8_t value, std::vector<uint8_t>& values) {
  std::string all;
  all.reserve(4 * kCodePointCount);
  for (char32_t c = 0; c < kCodePointCount; ++c) {
    if (!is_surrogate(c)) append_utf8(all, c);
  }
  std::vector<std::string_view> runs;
  SplitPattern::regex(pattern).split(all, runs);
  bool matches = false;  // U+0000 does not
  for (const std::string_view run : runs) {
    for (size_t at = 0; matches && at < run.size();) {
      const DecodedCharacter character = decode_utf8(run, at);
      values[character.code_point] = value;
      at += character.length;
    }
    matches = !matches;
  }
}

/// The length of the contraction that starts with the apostrophe at `at`, or 0. Without regard to
/// case U+017F is an s.
size_t contraction_length(std::string_view text, size_t at) {
  const auto lower_at = [&](size_t i) {
    return i < text.size() ? static_cast<char>(text[i] | 0x20) : '\0';
  };
  const char first = lower_at(at + 1), second = lower_at(at + 2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if ((first == 'r' || first == 'v') && second == 'e') return 3;
  if (first == 'l' && second == 'l') return 3;
  return text.substr(at + 1).starts_with("\u017F") ? 3 : 0;
}

}  // namespace

WordScanner::WordScanner(size_t numbers_max)
    : numbers_max_(numbers_max), classes_(&shared_classes()) {}

std::optional<WordScanner> WordScanner::for_pattern(std::string_view oniguruma_pattern) {
  if (oniguruma_pattern == kQwenPattern) return WordScanner(1);
  if (oniguruma_pattern == kLlama3Pattern) return WordScanner(3);
  return std::nullopt;
}

/// Asks PCRE2 for the classes, so that both ways know one and the same Unicode.
const CodePointTable& WordScanner::shared_classes() {
  static const CodePointTable table = [] {
    std::vector<uint8_t> values(kCodePointCount, kOther);
    mark_matches(R"(\p{L}+)", kLetter, values);
    mark_matches(R"(\p{N}+)", kNumber, values);
    mark_matches(R"(\s+)", kSpace, values);
    mark_matches(R"([\r\n]+)", kNewline, values);
    return CodePointTable(values);
  }();
  return table;
}

/// The character at `at` < text.size(), in valid UTF-8.
inline WordScanner::Character WordScanner::character_at(std::string_view text, size_t at) const {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const auto tail = [&](size_t i) { return static_cast<char32_t>(byte(i) & 0x3F); };
  const auto lead = static_cast<char32_t>(byte(0));
  const auto of = [&](char32_t code_point, size_t length) {
    return Character{static_cast<Class>((*classes_)[code_point]), length};
  };
  if (lead < 0x80) return of(lead, 1);
  if (lead < 0xE0) return of((lead & 0x1F) << 6 | tail(1), 2);
  if (lead < 0xF0) return of((lead & 0x0F) << 12 | tail(1) << 6 | tail(2), 3);
  return of((lead & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3), 4);
}

inline size_t WordScanner::run_end(std::string_view text, size_t at, Class of) const {
  while (at < text.size()) {
    const Character character = character_at(text, at);
    if (character.character_class != of) break;
    at += character.length;
  }
  return at;
}

/// The match of `\s*[\r\n]+|\s+(?!\S)|\s+` at `at`, where there is white space.
WordScanner::Word WordScanner::space_at(std::string_view text, size_t at) const {
  size_t end = at, last = at, newlines_end = at;
  while (end < text.size()) {
    const Character character = character_at(text, end);
    if (character.character_class != kSpace && character.character_class != kNewline) break;
    last = end;
    end += character.length;
    if (character.character_class == kNewline) newlines_end = end;
  }
  if (newlines_end > at) return {newlines_end, end};
  // The last one is left to the word behind it, unless it is the only one.
  if (end == text.size() || last == at) return {end, end};
  return {last, end};
}

/// The match at `at` < text.size(): the alternatives of the pattern in their order.
inline WordScanner::Word WordScanner::word_at(std::string_view text, size_t at) const {
  const auto whole = [](size_t end) { return Word{end, end}; };
  const Character first = character_at(text, at);
  const size_t behind = at + first.length;
  if (first.character_class == kLetter) return whole(run_end(text, behind, kLetter));
  if (first.character_class == kNumber) {
    size_t end = behind;
    for (size_t numbers = 1; numbers < numbers_max_ && end < text.size(); ++numbers) {
      const Character next = character_at(text, end);
      if (next.character_class != kNumber) break;
      end += next.length;
    }
    return whole(end);
  }
  if (text[at] == '\'') {
    if (const size_t length = contraction_length(text, at); length != 0) return whole(at + length);
  }
  if (first.character_class != kNewline && behind < text.size()) {
    const Character next = character_at(text, behind);
    if (next.character_class == kLetter) {
      return whole(run_end(text, behind + next.length, kLetter));
    }
    if (text[at] == ' ' && next.character_class == kOther) {
      const size_t signs_end = run_end(text, behind + next.length, kOther);
      return whole(run_end(text, signs_end, kNewline));
    }
  }
  if (first.character_class == kOther) {
    return whole(run_end(text, run_end(text, behind, kOther), kNewline));
  }
  return space_at(text, at);
}

size_t WordScanner::split_from(std::string_view text, size_t from, TextEnd end, size_t pieces_max,
                               std::vector<std::string_view>& pieces) const {
  for (size_t count = 0; from < text.size() && count < pieces_max; ++count) {
    const Word word = word_at(text, from);
    // Every match but one of numbers ends because of what is behind it.
    if (end == TextEnd::kOpen && word.seen == text.size()) break;
    pieces.push_back(text.substr(from, word.end - from));
    from = word.end;
  }
  return from;
}

}  // namespace espalier::text
