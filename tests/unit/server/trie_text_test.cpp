#include "server/debug/trie_text.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "debug_test_batches.h"

namespace espalier::server {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

TEST(TrieText, IndentsEachNodeUnderItsParent) {
  EXPECT_THAT(trie_text(recorded(branching_plan())),
              EndsWith("\n\n"
                       "4 tokens @ 0, shared by 3, ends 0, subtree 14 rows\n"
                       "  2 tokens @ 4, shared by 2, ends 1, subtree 5 rows\n"
                       "    3 tokens @ 6, shared by 1, ends 1, subtree 3 rows\n"
                       "  5 tokens @ 4, shared by 1, ends 1, subtree 5 rows\n"
                       "6 tokens @ 0, shared by 1, ends 1, subtree 6 rows\n"));
}

TEST(TrieText, SaysWhatItLeavesOut) {
  const auto text = trie_text(recorded(wide_plan(10'000)));
  EXPECT_LT(std::ranges::count(text, '\n'), 2100);
  EXPECT_THAT(text, HasSubstr("  … 8001 smaller nodes below left out, 8001 rows\n"));
  EXPECT_THAT(text, HasSubstr("2000 of 10001 nodes shown"));
}

TEST(TrieText, StaysSmallForDeepTries) {
  const auto text = trie_text(recorded(deep_plan(8192)));
  EXPECT_LT(text.size(), 500'000U);
  EXPECT_THAT(text, HasSubstr("(depth 1000) 1 tokens @ 1000,"));
}

TEST(TrieText, SaysThatNothingHasRun) {
  EXPECT_THAT(trie_text(RecordedTrie{}), HasSubstr("no batch has run yet"));
}

}  // namespace
}  // namespace espalier::server
