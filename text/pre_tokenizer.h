// The pre-tokenizer: text cut into the pre-tokens ("words") that byte pair encoding works on, none
// of which it merges across. `Split`s, then `ByteLevel`; or `Metaspace`; or nothing, and then a
// text is one word.
//
// Thread contract: immutable; each thread brings its own PreTokenScratch.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/metaspace.h"
#include "text/split.h"

namespace espalier::text {

/// Buffers that are reused from text to text, and the words of the last call.
struct PreTokenScratch {
  std::vector<std::string_view> words;
  std::vector<std::string_view> coarser;
  std::string prefixed;
};

struct PreTokenizer {
  /// GPT-2's own pattern, which `ByteLevel` applies when `use_regex` is true.
  static constexpr std::string_view kByteLevelPattern =
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

  std::vector<Split> splits;                     // each cuts the pieces of the one before
  bool add_prefix_space = false;                 // a piece that starts with no space gets one
  std::optional<SplitPattern> byte_level_split;  // cuts what comes out of that

  /// Instead of all these: what the tokenizer does to the text before it cuts words.
  std::optional<Metaspace> metaspace;
  /// Cuts the marked text. Where the pre-tokenizer does not ask for it, but the merges allow it
  /// (words_start_at), the Tokenizer sets it: words of a text are faster than the text as a word.
  std::optional<MarkedWords> marked_words;

  /// Whether a text is one word.
  bool cuts_nothing() const { return splits.empty() && !byte_level_split && !marked_words; }

  /// Puts the next pre-tokens of `text` (valid UTF-8) into `scratch.words`, a hundred or so, as raw
  /// bytes; they are valid until the next call. With a metaspace, `text` is what it marked. Goes on
  /// at `from`, which is 0 or what the call before returned, and returns where they end in `text`.
  ///
  /// Of a text with an open end come those only that it has whatever follows; when there are none
  /// left, returns `from`.
  size_t next_words(std::string_view text, size_t from, TextEnd end,
                    PreTokenScratch& scratch) const;

  /// Whether what comes behind the words of a text with an open end has the words that it has by
  /// itself.
  bool starts_afresh() const;

 private:
  const SplitPattern* first_split() const;
  void add_prefix_spaces(PreTokenScratch& scratch) const;
};

}  // namespace espalier::text
