#include "scheduler/canonical_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace espalier::scheduler {
namespace {

std::vector<uint32_t> first_tokens_of_children(const PrefixTrie& trie, const CanonicalOrder& order,
                                               uint32_t node) {
  std::vector<uint32_t> tokens;
  for (uint32_t child = order.first_child(node); child != PrefixTrie::kNone;
       child = order.next_sibling(child)) {
    EXPECT_EQ(trie.nodes()[child].parent, node);
    tokens.push_back(trie.nodes()[child].tokens[0]);
  }
  return tokens;
}

TEST(CanonicalOrder, ArrangesTenantsByNumber) {
  PrefixTrie trie(1);
  const std::vector<uint32_t> ids = {1};
  for (const uint64_t tenant : {uint64_t{5}, UINT64_MAX, uint64_t{0}}) {
    trie.insert(tenant, ids);
  }
  CanonicalOrder order;
  order.arrange(trie);
  ASSERT_EQ(order.roots().size(), 3U);
  EXPECT_EQ(order.roots()[0].tenant, 0U);
  EXPECT_EQ(order.roots()[1].tenant, 5U);
  EXPECT_EQ(order.roots()[2].tenant, UINT64_MAX);
}

TEST(CanonicalOrder, ArrangesChildrenByFirstTokenHoweverManyThereAre) {
  for (const size_t children : {1U, 2U, 100U, 511U, 512U, 513U, 20'000U}) {
    std::mt19937 random(static_cast<unsigned>(children));
    std::vector<uint32_t> tokens(children);
    std::generate(tokens.begin(), tokens.end(), random);  // all 32 bits
    std::sort(tokens.begin(), tokens.end());
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    std::vector<uint32_t> shuffled = tokens;
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    PrefixTrie trie(1);
    for (const uint32_t& token : shuffled) {
      trie.insert(0, {&token, 1});
    }
    CanonicalOrder order;
    order.arrange(trie);
    EXPECT_EQ(first_tokens_of_children(trie, order, order.roots()[0].node), tokens);
  }
}

TEST(CanonicalOrder, KeepsTheChildrenOfDifferentNodesApart) {
  PrefixTrie trie(1);
  const std::vector<std::vector<uint32_t>> sequences = {{2, 9}, {1, 8}, {2, 3}, {1, 4}};
  for (const auto& ids : sequences) {
    trie.insert(0, ids);
  }
  CanonicalOrder order;
  order.arrange(trie);
  const uint32_t root = order.roots()[0].node;
  EXPECT_EQ(first_tokens_of_children(trie, order, root), (std::vector<uint32_t>{1, 2}));
  const uint32_t one = order.first_child(root);
  EXPECT_EQ(first_tokens_of_children(trie, order, one), (std::vector<uint32_t>{4, 8}));
  EXPECT_EQ(first_tokens_of_children(trie, order, order.next_sibling(one)),
            (std::vector<uint32_t>{3, 9}));
}

}  // namespace
}  // namespace espalier::scheduler
