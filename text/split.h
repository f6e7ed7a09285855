// The pre-tokenizers `Split` and `Digits`: text cut at the matches of a pattern, which stay by
// themselves or with one of their neighbours. Equal to Hugging Face's `NormalizedString::split`
// (tokenizers 0.22) but for `Removed`, which is not supported.
//
// Thread contract: immutable after construction.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "text/split_pattern.h"

namespace espalier::text {

class Split {
 public:
  /// What happens to a match. (Where two follow each other, the one that a neighbour has taken up
  /// takes up none.)
  enum class Behavior {
    kIsolated,            // a piece by itself
    kContiguous,          // matches in a row are a piece, and so is what lies between
    kMergedWithPrevious,  // the end of the piece before it
    kMergedWithNext,      // the beginning of the piece behind it
  };

  /// `invert`: what lies between the matches is treated as matches are, and the other way round.
  explicit Split(SplitPattern pattern, Behavior behavior = Behavior::kIsolated, bool invert = false)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  /// The pattern, if its pieces are those of the split; else null.
  const SplitPattern* isolated_pattern() const {
    return behavior_ == Behavior::kIsolated ? &pattern_ : nullptr;
  }

  /// Appends the pieces of `text`: see SplitPattern::split.
  void split(std::string_view text, std::vector<std::string_view>& pieces) const;

 private:
  SplitPattern pattern_;
  Behavior behavior_;
  bool invert_;
};

}  // namespace espalier::text
