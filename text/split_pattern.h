// Text cut into the matches of a regular expression and what lies between them, which is the
// pre-tokenizer's `Split` with behaviour "Isolated". Patterns that a WordScanner knows are scanned,
// all others go to PCRE2.
//
// Thread contract: immutable after construction; every call brings its own match data.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/text_end.h"
#include "text/word_scanner.h"

struct pcre2_real_code_8;

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
  ///
  /// Time is linear in `text` for the published patterns. A match that exceeds PCRE2's limits
  /// (hundreds of megabytes of backtracking state) ends the splitting: the rest stays one piece.
  ///
  /// Appends to `matches`, if given, whether each piece is a match; then matches of nothing are
  /// (empty) pieces, too.
  void split(std::string_view text, std::vector<std::string_view>& pieces,
             std::vector<bool>* matches = nullptr) const {
    split_from(text, 0, TextEnd::kFinal, kAllPieces, pieces, matches);
  }

  /// Goes on at `from`, which is 0 or what an earlier call for `text` returned; appends
  /// `pieces_max` pieces or few more, and returns where they end. Of a text with an open end those
  /// only that are pieces of it whatever follows: when there are none left, returns `from`.
  size_t split_from(std::string_view text, size_t from, TextEnd end, size_t pieces_max,
                    std::vector<std::string_view>& pieces,
                    std::vector<bool>* matches = nullptr) const;

  /// Whether what comes behind a piece of a text with an open end is split as if the text began
  /// there.
  bool starts_afresh() const;

 private:
  struct CodeDeleter {
    void operator()(pcre2_real_code_8* code) const;
  };
  explicit SplitPattern(const WordScanner& scanner) : scanner_(scanner) {}
  explicit SplitPattern(const std::string& pcre2_pattern);

  std::optional<WordScanner> scanner_;
  std::unique_ptr<pcre2_real_code_8, CodeDeleter> code_;  // if there is no scanner
};

}  // namespace espalier::text
