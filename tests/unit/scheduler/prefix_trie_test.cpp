#include "scheduler/prefix_trie.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace espalier::scheduler {
namespace {

using Ids = std::vector<uint32_t>;

TEST(PrefixTrie, SharesACommonPrefixOnce) {
  PrefixTrie trie(1);
  const Ids a = {1, 2, 3, 4};
  const Ids b = {1, 2, 5, 6};
  EXPECT_EQ(trie.new_rows(0, a), 4U);
  trie.insert(0, a);
  EXPECT_EQ(trie.new_rows(0, b), 2U);
  trie.insert(0, b);
  EXPECT_EQ(trie.rows(), 6U);
}

TEST(PrefixTrie, EqualTokensAfterDifferentPrefixesDoNotShare) {
  PrefixTrie trie(1);
  const Ids a = {1, 9, 9};
  const Ids b = {2, 9, 9};
  trie.insert(0, a);
  EXPECT_EQ(trie.new_rows(0, b), 3U);
  trie.insert(0, b);
  EXPECT_EQ(trie.rows(), 6U);
}

TEST(PrefixTrie, EqualTokensAtDifferentPositionsDoNotShare) {
  PrefixTrie trie(1);
  const Ids repeated = {1, 2, 1, 2};
  trie.insert(0, repeated);
  EXPECT_EQ(trie.rows(), 4U);
}

TEST(PrefixTrie, TenantsNeverShare) {
  PrefixTrie trie(1);
  const Ids ids = {1, 2, 3};
  trie.insert(0, ids);
  EXPECT_EQ(trie.new_rows(UINT64_MAX, ids), 3U);
  trie.insert(UINT64_MAX, ids);
  EXPECT_EQ(trie.rows(), 6U);
  EXPECT_EQ(trie.new_rows(0, ids), 0U);
  EXPECT_EQ(trie.new_rows(UINT64_MAX, ids), 0U);
  EXPECT_EQ(trie.new_rows(1, ids), 3U);
}

TEST(PrefixTrie, EqualSequencesEndAtTheSameNode) {
  PrefixTrie trie(1);
  const Ids a = {1, 2, 3};
  const Ids b = {1, 2, 3};
  EXPECT_EQ(trie.insert(0, a), trie.insert(0, b));
  EXPECT_EQ(trie.rows(), 3U);
}

TEST(PrefixTrie, AnEarlierEndStaysWhereItWasWhenItsNodeIsSplit) {
  PrefixTrie trie(1);
  const Ids whole = {1, 2, 3, 4, 5};
  const Ids inner = {1, 2, 3};
  const Ids branch = {1, 7};
  const uint32_t whole_end = trie.insert(0, whole);
  const uint32_t inner_end = trie.insert(0, inner);
  trie.insert(0, branch);
  const auto end_position = [&](uint32_t node) {
    return trie.nodes()[node].position + trie.nodes()[node].length;
  };
  EXPECT_EQ(end_position(whole_end), 5U);
  EXPECT_EQ(end_position(inner_end), 3U);
  EXPECT_EQ(trie.nodes()[whole_end].parent, inner_end);
  EXPECT_EQ(trie.rows(), 6U);
}

TEST(PrefixTrie, CopiesNoTokens) {
  PrefixTrie trie(1);
  const Ids ids = {4, 5, 6};
  const uint32_t node = trie.insert(0, ids);
  EXPECT_EQ(trie.nodes()[node].tokens, ids.data());
}

TEST(PrefixTrie, IsEmptyAfterClear) {
  PrefixTrie trie(1);
  const Ids ids = {4, 5, 6};
  trie.insert(3, ids);
  trie.clear();
  EXPECT_EQ(trie.rows(), 0U);
  EXPECT_TRUE(trie.nodes().empty());
  EXPECT_TRUE(trie.roots().empty());
  EXPECT_EQ(trie.new_rows(3, ids), 3U);
}

TEST(PrefixTrie, FindsEachOfManyChildrenOfOneNode) {
  constexpr uint32_t kChildren = 16'384;
  Ids ids(kChildren);
  std::iota(ids.begin(), ids.end(), 0U);
  PrefixTrie trie(1);
  for (uint32_t i = 0; i < kChildren; ++i) {
    EXPECT_EQ(trie.new_rows(0, {&ids[i], 1}), 1U);
    trie.insert(0, {&ids[i], 1});
    EXPECT_EQ(trie.new_rows(0, {&ids[i], 1}), 0U);
  }
  EXPECT_EQ(trie.rows(), kChildren);
}

TEST(CommonPrefix, FindsTheFirstDifferenceAtEveryPlace) {
  constexpr size_t kLength = 700;  // beyond two of the largest blocks
  Ids a(kLength);
  std::iota(a.begin(), a.end(), 0U);
  EXPECT_EQ(common_prefix(a.data(), a.data(), kLength), kLength);
  EXPECT_EQ(common_prefix(a.data(), a.data(), 0), 0U);
  for (size_t at = 0; at < kLength; ++at) {
    Ids b = a;
    b[at] ^= 0x80000000U;
    EXPECT_EQ(common_prefix(a.data(), b.data(), kLength), at);
    EXPECT_EQ(common_prefix(a.data(), b.data(), at), at);
  }
}

}  // namespace
}  // namespace espalier::scheduler
