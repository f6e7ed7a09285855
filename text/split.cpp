#include "text/split.h"

#include <algorithm>
#include <cstddef>

namespace espalier::text {
namespace {

using Pieces = std::vector<std::string_view>;
using Behavior = Split::Behavior;

/// Two neighbouring views as one.
std::string_view joined(std::string_view left, std::string_view right) {
  return {left.data(), left.size() + right.size()};
}

/// Whether a piece joins the one that was put before it, given whether the two are matches. (The
/// first piece has none before it.)
bool joins(Behavior behavior, bool is_match, bool is_match_before) {
  return behavior == Behavior::kContiguous ? is_match == is_match_before
                                           : is_match && !is_match_before;
}

}  // namespace

void Split::split(std::string_view text, Pieces& pieces) const {
  if (behavior_ == Behavior::kIsolated) {
    pattern_.split(text, pieces);
    return;
  }
  Pieces parts;
  std::vector<bool> matches;
  pattern_.split(text, parts, &matches);
  const auto first = static_cast<std::ptrdiff_t>(pieces.size());
  const bool backwards = behavior_ == Behavior::kMergedWithNext;
  bool is_match_before = false;
  for (size_t k = 0; k < parts.size(); ++k) {
    const size_t i = backwards ? parts.size() - 1 - k : k;
    const bool is_match = matches[i] != invert_;
    if (k > 0 && joins(behavior_, is_match, is_match_before)) {
      std::string_view& last = pieces.back();
      last = backwards ? joined(parts[i], last) : joined(last, parts[i]);
    } else {
      pieces.push_back(parts[i]);
    }
    is_match_before = is_match;
  }
  if (backwards) std::reverse(pieces.begin() + first, pieces.end());
  const auto is_empty = [](std::string_view piece) { return piece.empty(); };
  pieces.erase(std::remove_if(pieces.begin() + first, pieces.end(), is_empty), pieces.end());
}

}  // namespace espalier::text
