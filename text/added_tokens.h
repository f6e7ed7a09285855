// Added tokens (`<|im_end|>` …): strings that are cut out of the text as a whole, before the
// pre-tokenizer sees it. Equal to Hugging Face's `AddedVocabulary::find_matches` (tokenizers 0.22).
//
// Thread contract: an AddedTokenMatcher is immutable.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/text_end.h"

namespace espalier::text {

struct AddedToken {
  std::string content;
  std::string pattern;  // what is looked for: the content, normalized if `normalized`; not empty
  uint32_t id = 0;
  bool strip_left = false;   // swallows the white space before it
  bool strip_right = false;  // … and behind it
  bool normalized = false;   // looked for in normalized text, else in raw text
  bool special = false;      // left out by decode() on demand; makes no difference to ids
};

/// A stretch of text: an added token, or text between added tokens.
struct TextSegment {
  std::optional<uint32_t> added_token;
  std::string_view text;
};

class AddedTokenMatcher {
 public:
  AddedTokenMatcher() = default;
  /// Patterns must be distinct.
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);

  /// The segments of `text`, in order, without empty stretches. The leftmost token is taken first,
  /// the longest among those that start there. Takes O(text · longest token · log tokens).
  ///
  /// Of a text with an open end come the segments that it has whatever follows. They may end before
  /// it does; the last one, if it is text, is open itself.
  std::vector<TextSegment> split(std::string_view text, TextEnd end) const;

 private:
  const AddedToken* longest_at(std::string_view text) const;
  size_t search_end(std::string_view text, TextEnd end) const;

  std::vector<AddedToken> tokens_;  // sorted by pattern
  std::array<bool, 256> starts_token_{};
  size_t longest_pattern_ = 1;
  bool strips_ = false;  // whether any token does
};

}  // namespace espalier::text
