// Text cut into the matches of a PCRE2 pattern and what lies between them.
//
// Thread contract: immutable after construction; every call brings its own match data.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/text_end.h"

struct pcre2_real_code_8;

namespace espalier::text {

class RegexSplitter {
 public:
  /// Throws std::invalid_argument when PCRE2 cannot compile the pattern.
  explicit RegexSplitter(const std::string& pcre2_pattern);

  /// See SplitPattern::split_from.
  ///
  /// Time is linear in `text` for the published patterns. A match that exceeds PCRE2's limits
  /// (hundreds of megabytes of backtracking state) ends the splitting: the rest stays one piece.
  size_t split_from(std::string_view text, size_t from, TextEnd end, size_t pieces_max,
                    std::vector<std::string_view>& pieces) const;

  /// Whether a match depends on what is before it.
  bool looks_behind() const;

 private:
  struct CodeDeleter {
    void operator()(pcre2_real_code_8* code) const;
  };
  std::unique_ptr<pcre2_real_code_8, CodeDeleter> code_;
};

}  // namespace espalier::text
