// The pre-tokenizer: text cut into the pre-tokens ("words") that byte pair encoding works on, none
// of which it merges across. `Split`s, then `ByteLevel`.
//
// Thread contract: immutable; each thread brings its own PreTokenScratch.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/split_pattern.h"

namespace espalier::text {

/// Buffers that are reused from text to text.
struct PreTokenScratch {
  std::vector<std::string_view> pieces, finer_pieces;
  std::string prefixed;
};

struct PreTokenizer {
  /// GPT-2's own pattern, which `ByteLevel` applies when `use_regex` is true.
  static constexpr std::string_view kByteLevelPattern =
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

  std::vector<SplitPattern> splits;              // each cuts the pieces of the one before
  bool add_prefix_space = false;                 // a piece that starts with no space gets one
  std::optional<SplitPattern> byte_level_split;  // cuts what comes out of that

  /// Calls `visit` with every pre-token of `text` (valid UTF-8), in order, as raw bytes; the view
  /// is valid during the call.
  void for_each_pre_token(std::string_view text, PreTokenScratch& scratch,
                          const std::function<void(std::string_view)>& visit) const;
};

}  // namespace espalier::text
