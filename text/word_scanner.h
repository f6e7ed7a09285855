// The published `Split` patterns of Qwen and Llama 3, scanned by hand: the matches that PCRE2
// finds, several times faster. tests/property/word_scanner_property_test.cpp holds the two against
// each other.
//
// Every character starts a match of these patterns, so matches follow each other without gaps.
//
// Thread contract: immutable after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/code_point_table.h"
#include "text/text_end.h"

namespace espalier::text {

class WordScanner {
 public:
  static constexpr std::string_view kQwenPattern =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
      R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
  static constexpr std::string_view kLlama3Pattern =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
      R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

  /// A scanner for exactly these patterns, for no other.
  static std::optional<WordScanner> for_pattern(std::string_view oniguruma_pattern);

  /// See SplitPattern::split_from. Takes O(text).
  size_t split_from(std::string_view text, size_t from, TextEnd end, size_t pieces_max,
                    std::vector<std::string_view>& pieces) const;

 private:
  enum Class : uint8_t { kOther, kLetter, kNumber, kSpace, kNewline };
  struct Character {
    Class character_class;
    size_t length;
  };
  /// A word, and the end of what was looked at to find it (behind `end` by no more than one
  /// character that is there).
  struct Word {
    size_t end, seen;
  };

  explicit WordScanner(size_t numbers_max);
  static const CodePointTable& shared_classes();
  Character character_at(std::string_view text, size_t at) const;
  size_t run_end(std::string_view text, size_t at, Class of) const;
  Word word_at(std::string_view text, size_t at) const;
  Word space_at(std::string_view text, size_t at) const;

  size_t numbers_max_;             // in a match of \p{N}…
  const CodePointTable* classes_;  // lives as long as the program
};

}  // namespace espalier::text
