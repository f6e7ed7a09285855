#include "server/debug/trie_outline.h"

#include <gmock/gmock.h>

#include "debug_test_batches.h"

namespace espalier::server {
namespace {

using testing::HasSubstr;

TEST(TrieOutline, CountsWhatEachNodeIsSharedBy) {
  const auto outline = outline_of(recorded(branching_plan()), 100, 100);
  ASSERT_EQ(outline.nodes.size(), 5U);
  const auto expect = [&](size_t n, size_t depth, size_t rows, size_t ends, size_t sequences) {
    EXPECT_EQ(outline.nodes[n].depth, depth) << n;
    EXPECT_EQ(outline.nodes[n].rows(), rows) << n;
    EXPECT_EQ(outline.nodes[n].ends, ends) << n;
    EXPECT_EQ(outline.nodes[n].sequences, sequences) << n;
    EXPECT_EQ(outline.nodes[n].hidden_nodes, 0U) << n;
  };
  expect(0, 0, 4, 0, 3);
  expect(1, 1, 2, 1, 2);
  expect(2, 2, 3, 1, 1);
  expect(3, 1, 5, 1, 1);
  expect(4, 0, 6, 1, 1);
}

TEST(TrieOutline, ShowsTheLargestSubtreesAndCountsTheRest) {
  const auto outline = outline_of(recorded(branching_plan()), 2, 100);
  ASSERT_EQ(outline.nodes.size(), 2U);  // the roots: 14 and 6 rows
  EXPECT_EQ(outline.nodes[0].hidden_nodes, 3U);
  EXPECT_EQ(outline.nodes[0].hidden_rows, 10U);
  EXPECT_EQ(outline.nodes[1].hidden_nodes, 0U);
  EXPECT_EQ(outline.all_nodes, 5U);
}

TEST(TrieOutline, CountsRootsThatItLeavesOut) {
  const auto outline = outline_of(recorded(branching_plan()), 1, 100);
  EXPECT_EQ(outline.nodes.size(), 1U);
  EXPECT_EQ(outline.hidden_roots, 1U);
  EXPECT_EQ(outline.hidden_root_rows, 6U);
}

TEST(TrieOutline, EndsAtItsDepth) {
  const auto outline = outline_of(recorded(deep_plan(100)), 1000, 9);
  ASSERT_EQ(outline.nodes.size(), 10U);
  EXPECT_EQ(outline.nodes.back().hidden_nodes, 90U);
  EXPECT_EQ(outline.nodes.back().hidden_rows, 90U);
  EXPECT_EQ(outline.nodes.back().sequences, 91U);
}

TEST(TrieOutline, OfNothingIsEmpty) {
  const auto outline = outline_of(RecordedTrie{}, 10, 10);
  EXPECT_TRUE(outline.nodes.empty());
  EXPECT_EQ(headline_of(RecordedTrie{}), "no batch has run yet");
}

TEST(TrieOutline, HeadlineTellsWhatTheBatchSaved) {
  const auto headline = headline_of(recorded(branching_plan()));
  EXPECT_THAT(headline, HasSubstr("4 sequences, 30 tokens in 20 rows (1.5 tokens a row), 5 nodes"));
}

}  // namespace
}  // namespace espalier::server
