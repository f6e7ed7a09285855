// The pre-tokenizer: text cut into the pre-tokens ("words") that byte pair encoding works on, none
// of which it merges across. `Split`s, then `ByteLevel`.
//
// Thread contract: immutable; each thread brings its own PreTokenScratch.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/split_pattern.h"

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

  std::vector<SplitPattern> splits;              // each cuts the pieces of the one before
  bool add_prefix_space = false;                 // a piece that starts with no space gets one
  std::optional<SplitPattern> byte_level_split;  // cuts what comes out of that

  /// Puts the next pre-tokens of `text` (valid UTF-8) into `scratch.words`, a hundred or so, as raw
  /// bytes; they are valid until the next call. Goes on at `from`, which is 0 or what the call
  /// before returned, and returns where they end in `text`.
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
  void refine(const SplitPattern& split, PreTokenScratch& scratch) const;
  void add_prefix_spaces(PreTokenScratch& scratch) const;
};

}  // namespace espalier::text
