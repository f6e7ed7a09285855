// What becomes of a split's matches.
#include "text/split.h"

#include <gtest/gtest.h>

namespace espalier::text {
namespace {

using Behavior = Split::Behavior;
using Pieces = std::vector<std::string_view>;

Pieces pieces(Behavior behavior, std::string_view text, bool invert = false,
              std::string_view pattern = "-") {
  Pieces result = {"before"};
  Split(SplitPattern::regex(pattern), behavior, invert).split(text, result);
  EXPECT_EQ(result.front(), "before") << "what is there already stays as it is";
  result.erase(result.begin());
  return result;
}

constexpr std::string_view kText = "the-final--countdown";

TEST(Split, TreatsMatchesAsItsBehaviorSays) {
  EXPECT_EQ(pieces(Behavior::kIsolated, kText),
            (Pieces{"the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(pieces(Behavior::kContiguous, kText), (Pieces{"the", "-", "final", "--", "countdown"}));
  EXPECT_EQ(pieces(Behavior::kMergedWithPrevious, kText),
            (Pieces{"the-", "final-", "-", "countdown"}));
  EXPECT_EQ(pieces(Behavior::kMergedWithNext, kText), (Pieces{"the", "-final", "-", "-countdown"}));
}

TEST(Split, InvertedTreatsWhatLiesBetween) {
  EXPECT_EQ(pieces(Behavior::kMergedWithPrevious, "-a--b", true), (Pieces{"-a", "-", "-b"}));
  EXPECT_EQ(pieces(Behavior::kMergedWithNext, "-a--b", true), (Pieces{"-", "a-", "-", "b"}));
  EXPECT_EQ(pieces(Behavior::kIsolated, "-a--b", true), (Pieces{"-", "a", "-", "-", "b"}));
}

TEST(Split, MatchesAtTheEndsHaveOneNeighbour) {
  EXPECT_EQ(pieces(Behavior::kMergedWithPrevious, "-a-"), (Pieces{"-", "a-"}));
  EXPECT_EQ(pieces(Behavior::kMergedWithNext, "-a-"), (Pieces{"-a", "-"}));
  EXPECT_EQ(pieces(Behavior::kContiguous, "--"), Pieces{"--"});
  EXPECT_EQ(pieces(Behavior::kContiguous, ""), Pieces{});
}

TEST(Split, MatchesOfNothingPart) {
  EXPECT_EQ(pieces(Behavior::kContiguous, "ab", false, "x*"), (Pieces{"a", "b"}));
}

TEST(Split, ScannedPatternsMatchEverything) {
  const std::string_view qwen = WordScanner::kQwenPattern;
  EXPECT_EQ(pieces(Behavior::kContiguous, "a b", false, qwen), Pieces{"a b"});
  EXPECT_EQ(pieces(Behavior::kMergedWithNext, "a b", true, qwen), (Pieces{"a", " b"}));
}

}  // namespace
}  // namespace espalier::text
