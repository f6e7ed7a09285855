// The normalizer: what happens to text between added tokens before it is cut into words. NFC,
// `Prepend` and `Replace` in any order, as Hugging Face's `tokenizers` 0.22 applies them.
//
// Thread contract: immutable after construction; each thread brings its own buffers.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/alignment.h"
#include "text/unicode_normalizer.h"

namespace espalier::text {

/// Puts `content` before text that is not empty.
struct PrependNormalizer {
  std::string content;
};

/// Puts `content` in the place of every `pattern`, from the left. Neither is empty.
struct ReplaceNormalizer {
  std::string pattern, content;
};

class Normalizer {
 public:
  using Step = std::variant<UnicodeNormalizer, PrependNormalizer, ReplaceNormalizer>;

  /// Leaves text as it is.
  Normalizer() = default;
  explicit Normalizer(std::vector<Step> steps) : steps_(std::move(steps)) {}

  bool empty() const { return steps_.empty(); }

  /// `text` (valid UTF-8) normalized: `text` itself where nothing changes, else a view of `buffer`.
  std::string_view normalize(std::string_view text, std::string& buffer) const;

  /// The same. Sets `alignments` to those of the steps, the first step's first: what the bytes of
  /// each step's text stand for in the one before.
  std::string_view normalize(std::string_view text, std::string& buffer,
                             std::vector<Alignment>& alignments) const;

  /// The size in bytes of a part of `text` (valid UTF-8), from its beginning, that is normalized to
  /// the same whatever follows; 0 where that is not known.
  size_t settled_bytes(std::string_view text) const;

  /// Whether normalized text followed by any other text is normalized to what both are as one text
  /// cut at settled_bytes(). (`Prepend` would come twice.)
  bool goes_on() const;

 private:
  std::vector<Step> steps_;
};

}  // namespace espalier::text
