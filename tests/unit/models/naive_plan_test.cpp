// The planner that the tests of models trust, on examples small enough to check by eye.
#include "tests/reference/naive_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

namespace espalier::reference {
namespace {

using engine::BatchPlan;
using engine::DedupMode;
using engine::kNoParent;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Node = std::tuple<uint32_t, uint32_t, uint32_t, uint32_t, uint32_t>;

std::vector<Node> nodes_of(const BatchPlan& plan) {
  std::vector<Node> nodes;
  for (const engine::TrieNode& n : plan.nodes) {
    nodes.emplace_back(n.begin, n.end, n.subtree_end, n.parent, n.position);
  }
  return nodes;
}

const std::vector<TokenIds> kSequences = {{1, 2, 3, 4}, {1, 2, 5, 6}, {1, 2, 3}, {7}};

TEST(NaivePlan, SharedPrefixesAreOneNodeInPreorder) {
  const BatchPlan plan = naive_plan(kSequences, DedupMode::kTrie);
  EXPECT_THAT(plan.token_ids, ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(plan.positions, ElementsAre(0, 1, 2, 3, 2, 3, 0));
  EXPECT_THAT(nodes_of(plan), ElementsAre(Node{0, 2, 6, kNoParent, 0}, Node{2, 4, 4, 0, 2},
                                          Node{4, 6, 6, 0, 2}, Node{6, 7, 7, kNoParent, 0}));
  EXPECT_THAT(plan.wanted_rows, ElementsAre(2, 3, 5, 6));
  EXPECT_EQ(plan.ends[2].node, 1U);  // inside a node
  EXPECT_EQ(plan.ends[2].row, 2U);
  EXPECT_THAT(plan.gather, IsEmpty());
}

TEST(NaivePlan, MapsLeadToTheFirstFullRowAndBack) {
  const BatchPlan plan = naive_plan(kSequences, DedupMode::kRadixMlp);
  EXPECT_THAT(plan.scatter, ElementsAre(0, 1, 2, 3, 0, 1, 4, 5, 0, 1, 2, 6));
  EXPECT_THAT(plan.gather, ElementsAre(0, 1, 2, 3, 6, 7, 11));
  EXPECT_THAT(plan.sequence_offsets, ElementsAre(0, 4, 8, 11, 12));
}

TEST(NaivePlan, WithoutDedupEverySequenceIsAChain) {
  const BatchPlan plan = naive_plan(kSequences, DedupMode::kOff, Wanted::kAllRows);
  EXPECT_THAT(plan.token_ids, ElementsAre(1, 2, 3, 4, 1, 2, 5, 6, 1, 2, 3, 7));
  EXPECT_THAT(nodes_of(plan),
              ElementsAre(Node{0, 4, 4, kNoParent, 0}, Node{4, 8, 8, kNoParent, 0},
                          Node{8, 11, 11, kNoParent, 0}, Node{11, 12, 12, kNoParent, 0}));
  EXPECT_EQ(plan.wanted_rows.size(), 12U);
}

}  // namespace
}  // namespace espalier::reference
