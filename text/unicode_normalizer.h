// Normalization form C with the Unicode version of Hugging Face's `tokenizers`.
//
// Their tables (crate unicode-normalization-alignments 0.1.12) are those of Unicode 9.0: a
// character that came later neither composes nor is reordered, and stops what is around it from
// doing so. ICU's newer tables give the same on Unicode 9.0's characters (normalization is stable),
// so they are applied to runs of those only.
//
// Thread contract: immutable after construction.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "text/alignment.h"

namespace espalier::text {

class UnicodeNormalizer {
 public:
  /// Throws std::runtime_error when ICU's data cannot be loaded. `chunk_bytes` bounds what ICU gets
  /// at once (its lengths are 32 bits); tests make it small.
  explicit UnicodeNormalizer(size_t chunk_bytes = size_t{1} << 30);
  UnicodeNormalizer(UnicodeNormalizer&&) noexcept;
  UnicodeNormalizer& operator=(UnicodeNormalizer&&) noexcept;
  ~UnicodeNormalizer();

  /// NFC of `text`, which must be valid UTF-8: `text` itself if it is normalized already, else a
  /// view of `buffer`. Takes O(n log n), also for text that is nothing but combining marks.
  std::string_view normalize(std::string_view text, std::string& buffer) const;

  /// The same, appending to `alignment` what the bytes of `text` became.
  std::string_view normalize(std::string_view text, std::string& buffer,
                             Alignment& alignment) const;

  /// The largest part of `text` (valid UTF-8), from its beginning, that is normalized to the same
  /// whatever follows `text`, and of which the rest is normalized apart: its size in bytes.
  size_t settled_bytes(std::string_view text) const;

 private:
  struct Icu;  // keeps ICU's headers in one file
  std::unique_ptr<const Icu> icu_;
  size_t chunk_bytes_;
};

}  // namespace espalier::text
