// The pre-tokenizer `Metaspace` of SentencePiece-like tokenizers: spaces become a visible mark
// (U+2581), one is put before the text, and words start with it. Equal to Hugging Face's
// `pre_tokenizers/metaspace.rs` (tokenizers 0.22).
//
// Thread contract: a value; const calls may run at once.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/alignment.h"
#include "text/text_end.h"

namespace espalier::text {

/// U+2581, LOWER ONE EIGHTH BLOCK, which stands for a space.
inline constexpr std::string_view kSpaceMark = "\u2581";

struct Metaspace {
  enum class Prepend {
    kAlways,  // before every stretch of text between added tokens
    kFirst,   // before the one that starts the text
    kNever,
  };

  std::string mark{kSpaceMark};  // one character
  Prepend prepend = Prepend::kAlways;
  bool split = true;  // every mark starts a word

  /// `text` (valid UTF-8) with marks, in `buffer`. `begins_text`: nothing lies before it.
  std::string_view marked(std::string_view text, bool begins_text, std::string& buffer) const;

  /// The same, appending to `alignment` what the bytes of `text` became.
  std::string_view marked(std::string_view text, bool begins_text, std::string& buffer,
                          Alignment& alignment) const;

 private:
  bool prepends(std::string_view text, bool begins_text) const;
};

/// Words that start with a mark.
struct MarkedWords {
  std::string mark;
  bool each = true;  // each mark starts a word; else each run of them

  /// See SplitPattern::split_from.
  size_t split_from(std::string_view text, size_t from, TextEnd end, size_t pieces_max,
                    std::vector<std::string_view>& pieces) const;
};

}  // namespace espalier::text
