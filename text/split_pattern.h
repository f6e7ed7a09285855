// The pre-tokenizer's `Split` with behaviour "Isolated": text cut into the matches of a regular
// expression and what lies between them. Patterns that a WordScanner knows are scanned, all others
// go to PCRE2.
//
// Thread contract: immutable after construction.
#pragma once

#include <cstddef>
#include <limits>
#include <string_view>
#include <variant>
#include <vector>

#include "text/regex_splitter.h"
#include "text/word_scanner.h"

namespace espalier::text {

class SplitPattern {
 public:
  static constexpr size_t kAllPieces = std::numeric_limits<size_t>::max();

  /// Compiles an Oniguruma pattern. Throws std::invalid_argument with the reason when it is
  /// malformed or not supported (see pattern_translation.h).
  static SplitPattern regex(std::string_view pattern);
  static SplitPattern literal(std::string_view text);

  /// Appends the non-empty pieces of `text`, in order; joined they are `text`. `text` must be valid
  /// UTF-8 and outlive the pieces.
  void split(std::string_view text, std::vector<std::string_view>& pieces) const {
    split_from(text, 0, TextEnd::kFinal, kAllPieces, pieces);
  }

  /// Goes on at `from`, which is 0 or what an earlier call for `text` returned; appends
  /// `pieces_max` pieces or few more, and returns where they end. Of a text with an open end those
  /// only that are pieces of it whatever follows: when there are none left, returns `from`.
  size_t split_from(std::string_view text, size_t from, TextEnd end, size_t pieces_max,
                    std::vector<std::string_view>& pieces) const;

  /// Whether what comes behind a piece of a text with an open end is split as if the text began
  /// there.
  bool starts_afresh() const;

 private:
  using Splitter = std::variant<WordScanner, RegexSplitter>;
  explicit SplitPattern(Splitter splitter) : splitter_(std::move(splitter)) {}

  Splitter splitter_;
};

}  // namespace espalier::text
