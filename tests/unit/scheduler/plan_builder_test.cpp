#include "scheduler/plan_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/reference/naive_trie.h"

namespace espalier::scheduler {
namespace {

using engine::BatchPlan;
using engine::DedupMode;
using reference::NaiveSequence;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Ids = std::vector<uint32_t>;

BatchPlan build_plan(const std::vector<NaiveSequence>& sequences, DedupMode dedup) {
  PlanBuilder builder(dedup);
  for (const NaiveSequence& sequence : sequences) {
    builder.add(sequence.tenant, sequence.ids,
                sequence.wants_all ? WantedRows::kAll : WantedRows::kLast);
  }
  BatchPlan plan;
  builder.build(plan);
  return plan;
}

std::vector<NaiveSequence> one_tenant(const std::vector<Ids>& sequences) {
  std::vector<NaiveSequence> result;
  for (const Ids& ids : sequences) {
    result.push_back({0, ids, false});
  }
  return result;
}

void expect_node(const engine::TrieNode& node, const engine::TrieNode& expected) {
  EXPECT_EQ(node.begin, expected.begin);
  EXPECT_EQ(node.end, expected.end);
  EXPECT_EQ(node.subtree_end, expected.subtree_end);
  EXPECT_EQ(node.parent, expected.parent);
  EXPECT_EQ(node.position, expected.position);
}

TEST(PlanBuilder, NumbersRowsInDepthFirstPreorder) {
  const BatchPlan plan =
      build_plan(one_tenant({{1, 2, 5, 6}, {1, 2, 3, 4}, {7}}), DedupMode::kTrie);
  EXPECT_THAT(plan.token_ids, ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(plan.positions, ElementsAre(0, 1, 2, 3, 2, 3, 0));
  ASSERT_EQ(plan.nodes.size(), 4U);
  expect_node(plan.nodes[0], {0, 2, 6, engine::kNoParent, 0});
  expect_node(plan.nodes[1], {2, 4, 4, 0, 2});
  expect_node(plan.nodes[2], {4, 6, 6, 0, 2});
  expect_node(plan.nodes[3], {6, 7, 7, engine::kNoParent, 0});
  EXPECT_EQ(plan.ends[0].row, 5U);
  EXPECT_EQ(plan.ends[0].node, 2U);
  EXPECT_EQ(plan.ends[1].row, 3U);
  EXPECT_EQ(plan.ends[2].row, 6U);
  EXPECT_THAT(plan.wanted_rows, ElementsAre(3, 5, 6));
}

TEST(PlanBuilder, ASequenceMayEndInsideANode) {
  const BatchPlan plan = build_plan(one_tenant({{1, 2, 3, 4}, {1, 2}}), DedupMode::kTrie);
  ASSERT_EQ(plan.nodes.size(), 1U);
  expect_node(plan.nodes[0], {0, 4, 4, engine::kNoParent, 0});
  EXPECT_EQ(plan.ends[1].node, 0U);
  EXPECT_EQ(plan.ends[1].row, 1U);
}

TEST(PlanBuilder, DuplicatesShareTheirWantedRow) {
  const BatchPlan plan = build_plan(one_tenant({{1, 2}, {1, 2}, {1, 2}}), DedupMode::kTrie);
  EXPECT_EQ(plan.compact_rows(), 2U);
  EXPECT_EQ(plan.ends.size(), 3U);
  EXPECT_THAT(plan.wanted_rows, ElementsAre(1));
}

TEST(PlanBuilder, WantsTheWholePathOfASequenceThatAsksForAllRows) {
  const std::vector<NaiveSequence> sequences = {
      {0, {1, 2, 3}, false}, {0, {1, 4, 5}, true}, {0, {9, 9}, false}};
  const BatchPlan plan = build_plan(sequences, DedupMode::kTrie);
  // Rows: 1 | 2 3 | 4 5 | 9 9.
  EXPECT_THAT(plan.wanted_rows, ElementsAre(0, 2, 3, 4, 6));
}

TEST(PlanBuilder, SequencesOfDifferentTenantsHaveRootsOfTheirOwn) {
  const std::vector<NaiveSequence> sequences = {{9, {1, 2}, false}, {4, {1, 2}, false}};
  const BatchPlan plan = build_plan(sequences, DedupMode::kTrie);
  EXPECT_THAT(plan.token_ids, ElementsAre(1, 2, 1, 2));
  ASSERT_EQ(plan.nodes.size(), 2U);
  EXPECT_EQ(plan.nodes[1].parent, engine::kNoParent);
  EXPECT_EQ(plan.ends[0].row, 3U);  // tenant 4 comes first
  EXPECT_EQ(plan.ends[1].row, 1U);
}

TEST(PlanBuilder, OffGivesEverySequenceAChainInTheOrderGiven) {
  const BatchPlan plan = build_plan(one_tenant({{5, 6}, {5, 6}, {1}}), DedupMode::kOff);
  EXPECT_THAT(plan.token_ids, ElementsAre(5, 6, 5, 6, 1));
  EXPECT_THAT(plan.positions, ElementsAre(0, 1, 0, 1, 0));
  ASSERT_EQ(plan.nodes.size(), 3U);
  expect_node(plan.nodes[1], {2, 4, 4, engine::kNoParent, 0});
  EXPECT_THAT(plan.wanted_rows, ElementsAre(1, 3, 4));
}

TEST(PlanBuilder, BuildsMapsForRadixMlpAlone) {
  for (const DedupMode dedup : {DedupMode::kTrie, DedupMode::kOff}) {
    const BatchPlan plan = build_plan(one_tenant({{1, 2}, {1, 3}}), dedup);
    EXPECT_THAT(plan.gather, IsEmpty());
    EXPECT_THAT(plan.scatter, IsEmpty());
    EXPECT_THAT(plan.sequence_offsets, IsEmpty());
  }
}

TEST(PlanBuilder, ForgetsTheBatchBeforeWhenCleared) {
  PlanBuilder builder(DedupMode::kRadixMlp);
  BatchPlan plan;
  const Ids large = {9, 8, 7, 6, 5, 4};
  builder.add(3, large, WantedRows::kAll);
  builder.build(plan);
  builder.clear();
  EXPECT_EQ(builder.rows(), 0U);
  EXPECT_EQ(builder.full_rows(), 0U);
  const std::vector<NaiveSequence> sequences = one_tenant({{2}, {1}});
  for (const NaiveSequence& sequence : sequences) {
    builder.add(0, sequence.ids, WantedRows::kLast);
  }
  builder.build(plan);
  EXPECT_EQ(
      reference::first_difference(plan, reference::naive_plan(sequences, DedupMode::kRadixMlp)),
      nullptr);
}

TEST(PlanBuilder, ReusesThePlansMemory) {
  PlanBuilder builder(DedupMode::kRadixMlp);
  BatchPlan plan;
  const Ids ids = {9, 8, 7, 6, 5, 4};
  const auto build = [&] {
    builder.clear();
    builder.add(0, ids, WantedRows::kAll);
    builder.build(plan);
  };
  build();
  const auto addresses = [&] {
    return std::vector<const void*>{plan.token_ids.data(),   plan.positions.data(),
                                    plan.nodes.data(),       plan.ends.data(),
                                    plan.wanted_rows.data(), plan.gather.data(),
                                    plan.scatter.data(),     plan.sequence_offsets.data()};
  };
  const std::vector<const void*> before = addresses();
  build();
  EXPECT_EQ(addresses(), before);
}

TEST(PlanBuilder, PricesASequenceAtTheRowsThatItDoesNotShare) {
  const Ids first = {1, 2, 3};
  const Ids second = {1, 2, 4, 5};
  PlanBuilder trie(DedupMode::kTrie);
  trie.add(0, first, WantedRows::kLast);
  EXPECT_EQ(trie.new_rows(0, second), 2U);
  EXPECT_EQ(trie.new_rows(1, second), 4U);
  PlanBuilder off(DedupMode::kOff);
  off.add(0, first, WantedRows::kLast);
  EXPECT_EQ(off.new_rows(0, second), 4U);
  EXPECT_EQ(trie.price(0, second, WantedRows::kLast).wanted, 1);
  EXPECT_EQ(trie.price(0, second, WantedRows::kAll).wanted, 4);  // shared rows may be wanted too
}

TEST(PlanBuilder, ARowIsNewToTheFirstSequenceThatHoldsItWithinItsTenant) {
  const std::vector<NaiveSequence> sequences = {
      {0, {1, 2, 3}, false}, {0, {1, 2, 4, 5}, false}, {0, {1, 2, 3}, true}, {0, {1, 2}, false},
      {7, {1, 2, 3}, false}, {0, {1, 2, 3, 6}, false}, {7, {1, 2}, true}};
  const auto new_rows = [&](DedupMode dedup) {
    PlanBuilder builder(dedup);
    std::vector<uint32_t> result;
    for (const NaiveSequence& sequence : sequences) {
      builder.add(sequence.tenant, sequence.ids, WantedRows::kLast);
    }
    for (size_t s = 0; s < sequences.size(); ++s) result.push_back(builder.new_rows_of(s));
    return result;
  };
  EXPECT_THAT(new_rows(DedupMode::kTrie), ElementsAre(3, 2, 0, 0, 3, 1, 0));
  EXPECT_THAT(new_rows(DedupMode::kRadixMlp), ElementsAre(3, 2, 0, 0, 3, 1, 0));
  EXPECT_THAT(new_rows(DedupMode::kOff), ElementsAre(3, 4, 3, 2, 3, 4, 2));
}

// A comb: sequence d is d times the token 1, then a 2, so that every level of the trie branches but
// the last.
TEST(PlanBuilder, ACombOf16384LevelsNeedsNoStack) {
  constexpr uint32_t kLevels = 16'384;
  Ids ones(kLevels + 1, 1);
  ones.back() = 2;
  PlanBuilder builder(DedupMode::kTrie);
  for (uint32_t d = kLevels; d-- > 0;) {
    builder.add(0, std::span<const uint32_t>(ones).last(d + 1), WantedRows::kLast);
  }
  ASSERT_EQ(builder.rows(), 2 * kLevels - 1);
  BatchPlan plan;
  builder.build(plan);
  // A node for each 1, and a leaf 2 beside it; the last 1 and its 2 are one node.
  EXPECT_EQ(plan.nodes.size(), 2 * kLevels - 2);
  EXPECT_EQ(plan.nodes.front().subtree_end, 2 * kLevels - 2);
  EXPECT_EQ(plan.positions[plan.ends.front().row], kLevels - 1);
  EXPECT_EQ(plan.ends.back().row, 2 * kLevels - 2);  // the lone 2, a root after the ones
}

TEST(PlanBuilder, ManyOneTokenSequencesAreRootsInTokenOrder) {
  constexpr uint32_t kSequences = 16'384;
  Ids ids(kSequences);
  std::iota(ids.rbegin(), ids.rend(), 0U);
  PlanBuilder builder(DedupMode::kTrie);
  for (const uint32_t& id : ids) {
    builder.add(0, {&id, 1}, WantedRows::kLast);
  }
  BatchPlan plan;
  builder.build(plan);
  ASSERT_EQ(plan.nodes.size(), kSequences);
  for (uint32_t i = 0; i < kSequences; ++i) {
    ASSERT_EQ(plan.token_ids[i], i);
    ASSERT_EQ(plan.ends[i].row, ids[i]);
    ASSERT_EQ(plan.nodes[i].parent, engine::kNoParent);
  }
}

// The published examples number compact rows by first occurrence; a plan numbers them in preorder.
struct Example {
  const char* name;
  Ids ids, positions, offsets;
  Ids compact_ids, scatter, gather;
};

const std::vector<Example>& published_examples() {
  static const std::vector<Example> examples = {
      {"a shared prefix",
       {1, 2, 3, 4, 1, 2, 5, 6},
       {0, 1, 2, 3, 0, 1, 2, 3},
       {0, 4, 8},
       {1, 2, 3, 4, 5, 6},
       {0, 1, 2, 3, 0, 1, 4, 5},
       {0, 1, 2, 3, 6, 7}},
      {"a duplicate",
       {1, 2, 3, 1, 2, 3},
       {0, 1, 2, 0, 1, 2},
       {0, 3, 6},
       {1, 2, 3},
       {0, 1, 2, 0, 1, 2},
       {0, 1, 2}},
      {"other positions",
       {1, 2, 1, 2},
       {0, 1, 2, 3},
       {0, 2, 4},
       {1, 2, 1, 2},
       {0, 1, 2, 3},
       {0, 1, 2, 3}},
      {"an empty sequence",
       {1, 2, 3, 1, 2},
       {0, 1, 2, 0, 1},
       {0, 3, 3, 5},
       {1, 2, 3},
       {0, 1, 2, 0, 1},
       {0, 1, 2}},
      {"a prefix of a later sequence",
       {1, 2, 9, 9, 1, 2, 3},
       {0, 1, 0, 1, 0, 1, 2},
       {0, 2, 4, 7},
       {1, 2, 9, 9, 3},
       {0, 1, 2, 3, 0, 1, 4},
       {0, 1, 2, 3, 6}},
  };
  return examples;
}

TEST(RadixMlpMaps, TheTwinGivesThePublishedExamples) {
  for (const Example& example : published_examples()) {
    const reference::FirstOccurrenceMaps maps =
        reference::first_occurrence_maps(example.ids, example.positions, example.offsets);
    EXPECT_EQ(maps.compact_ids, example.compact_ids) << example.name;
    EXPECT_EQ(maps.scatter, example.scatter) << example.name;
    EXPECT_EQ(maps.gather, example.gather) << example.name;
  }
}

// An empty sequence never gets here, and positions start at 0: the third example's second sequence
// is the rest of its first, so that its tokens stand at positions 2 and 3.
TEST(RadixMlpMaps, PlansGiveThePublishedExamplesPermutedToPreorder) {
  for (const Example& example : published_examples()) {
    std::vector<NaiveSequence> sequences;
    for (size_t s = 0; s + 1 < example.offsets.size(); ++s) {
      const auto begin = example.ids.begin() + example.offsets[s];
      const auto end = example.ids.begin() + example.offsets[s + 1];
      if (begin == end) {
        continue;
      }
      if (example.positions[example.offsets[s]] == 0) {
        sequences.push_back({0, {begin, end}, false});
      } else {
        sequences.back().ids.insert(sequences.back().ids.end(), begin, end);
      }
    }
    const BatchPlan plan = build_plan(sequences, DedupMode::kRadixMlp);
    ASSERT_EQ(plan.compact_rows(), example.compact_ids.size()) << example.name;
    ASSERT_EQ(plan.scatter.size(), example.scatter.size()) << example.name;
    // The permutation: published row c is the preorder row of the full row that c gathers.
    for (size_t full = 0; full < example.ids.size(); ++full) {
      const uint32_t preorder_row = plan.scatter[full];
      const uint32_t published_row = example.scatter[full];
      EXPECT_EQ(preorder_row, plan.scatter[example.gather[published_row]]) << example.name;
      EXPECT_EQ(plan.gather[preorder_row], example.gather[published_row]) << example.name;
      EXPECT_EQ(plan.token_ids[preorder_row], example.compact_ids[published_row]) << example.name;
    }
    EXPECT_EQ(plan.sequence_offsets.front(), 0U);
    EXPECT_EQ(plan.sequence_offsets.back(), example.ids.size());
  }
}

}  // namespace
}  // namespace espalier::scheduler
