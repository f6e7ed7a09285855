#include "server/debug/trie_svg.h"

#include <gmock/gmock.h>

#include "debug_test_batches.h"

namespace espalier::server {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

size_t count(const std::string& text, const std::string& word) {
  size_t found = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

TEST(TrieSvg, DrawsABoxForEachNode) {
  const auto svg = trie_svg(recorded(branching_plan()));
  EXPECT_THAT(svg, AllOf(StartsWith("<svg xmlns="), EndsWith("</svg>\n")));
  EXPECT_EQ(count(svg, "<title>"), 5U);
  EXPECT_EQ(count(svg, "<g>"), count(svg, "</g>"));
  EXPECT_THAT(svg, HasSubstr(">4 tokens, 3 sequences</text>"));
  // 14 of 20 rows of 1 376 pixels, but for the gap to the next box.
  EXPECT_THAT(svg, HasSubstr("width=\"961.70\""));
  EXPECT_THAT(svg, Not(HasSubstr("nodes drawn")));
}

TEST(TrieSvg, StaysBoundedForWideAndDeepTries) {
  for (const auto& plan : {wide_plan(60'000), deep_plan(8192)}) {
    const auto svg = trie_svg(recorded(plan));
    EXPECT_LE(count(svg, "<rect"), 2001U);
    EXPECT_LT(svg.size(), 1'000'000U);
    EXPECT_THAT(svg, HasSubstr("nodes drawn, those with the largest subtrees"));
  }
}

TEST(TrieSvg, SaysThatNothingHasRun) {
  const auto svg = trie_svg(RecordedTrie{});
  EXPECT_THAT(svg, AllOf(HasSubstr("no batch has run yet"), EndsWith("</svg>\n")));
}

}  // namespace
}  // namespace espalier::server
