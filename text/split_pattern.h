// The pre-tokenizer's `Split` with behaviour "Isolated": text cut into the matches of a regular
// expression and what lies between them.
//
// Thread contract: immutable after construction; every call brings its own match data.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct pcre2_real_code_8;

namespace espalier::text {

class SplitPattern {
 public:
  /// Compiles an Oniguruma pattern. Throws std::invalid_argument with the reason when it is
  /// malformed or not supported (see pattern_translation.h).
  static SplitPattern regex(std::string_view pattern);
  static SplitPattern literal(std::string_view text);

  /// Appends the non-empty pieces of `text`, in order; joined they are `text`. `text` must be valid
  /// UTF-8 and outlive the pieces.
  ///
  /// Time is linear in `text` for the published patterns. A match that exceeds PCRE2's limits
  /// (hundreds of megabytes of backtracking state) ends the splitting: the rest stays one piece.
  void split(std::string_view text, std::vector<std::string_view>& pieces) const;

 private:
  struct CodeDeleter {
    void operator()(pcre2_real_code_8* code) const;
  };
  explicit SplitPattern(const std::string& pcre2_pattern);

  std::unique_ptr<pcre2_real_code_8, CodeDeleter> code_;
};

}  // namespace espalier::text
