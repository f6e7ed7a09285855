#include "models/plan_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/reference/naive_plan.h"

namespace espalier::models {
namespace {

using engine::BatchPlan;
using engine::DedupMode;
using ::testing::HasSubstr;

constexpr size_t kVocabulary = 10;
constexpr size_t kPositions = 4;

/// Three sequences of a common root, in the mode that fills every field.
BatchPlan sound_plan() {
  const std::vector<reference::TokenIds> sequences = {{1, 2, 3}, {1, 2, 4, 5}, {1, 9}};
  return reference::naive_plan(sequences, DedupMode::kRadixMlp);
}

std::string error_after(const std::function<void(BatchPlan&)>& damage) {
  BatchPlan plan = sound_plan();
  damage(plan);
  try {
    check_plan(plan, kVocabulary, kPositions);
  } catch (const std::out_of_range& error) {
    return error.what();
  }
  return "no error";
}

TEST(PlanCheck, SoundPlansPassInEveryMode) {
  const std::vector<reference::TokenIds> sequences = {{1, 2, 3}, {1, 2, 4, 5}, {1, 9}, {1, 2, 3}};
  for (const DedupMode dedup : {DedupMode::kTrie, DedupMode::kRadixMlp, DedupMode::kOff}) {
    EXPECT_NO_THROW(check_plan(reference::naive_plan(sequences, dedup), kVocabulary, kPositions));
  }
  EXPECT_NO_THROW(check_plan(BatchPlan{}, kVocabulary, kPositions));
}

TEST(PlanCheck, TokensAndPositionsOutOfTheModelsRangeAreNamedWithTheirValues) {
  EXPECT_THAT(error_after([](BatchPlan& p) { p.token_ids[2] = 10; }),
              HasSubstr("token_ids[2] is 10, against 10"));
  EXPECT_THAT(error_after([](BatchPlan& p) { p.token_ids[0] = UINT32_MAX; }),
              HasSubstr("token_ids[0] is 4294967295"));
  EXPECT_THAT(error_after([](BatchPlan& p) { p.positions[1] = 4; }),
              HasSubstr("positions[1] is 4, against 4"));
  EXPECT_THAT(error_after([](BatchPlan& p) { p.positions.pop_back(); }),
              HasSubstr("positions has 5 entries, against 6"));
}

TEST(PlanCheck, WantedRowsMustBeSortedUniqueAndThere) {
  EXPECT_THAT(error_after([](BatchPlan& p) { p.wanted_rows.back() = 6; }),
              HasSubstr("wanted_rows[2] is 6"));
  EXPECT_THAT(error_after([](BatchPlan& p) {
                p.wanted_rows = {1, 1};
              }),
              HasSubstr("wanted_rows[1] is 1"));
  EXPECT_THAT(error_after([](BatchPlan& p) {
                p.wanted_rows = {3, 2};
              }),
              HasSubstr("wanted_rows[1] is 2, against 3"));
}

TEST(PlanCheck, NodesMustTileTheRowsInsideTheirParents) {
  EXPECT_THAT(error_after([](BatchPlan& p) { p.nodes.pop_back(); }), HasSubstr("node.end"));
  EXPECT_THAT(error_after([](BatchPlan& p) { p.nodes[1].begin = 2; }), HasSubstr("node.begin[1]"));
  EXPECT_THAT(error_after([](BatchPlan& p) { p.nodes[0].end = 0; }), HasSubstr("node.end[0]"));
  EXPECT_THAT(error_after([](BatchPlan& p) { p.nodes.back().end = 7; }), HasSubstr("node.end"));
  EXPECT_THAT(error_after([](BatchPlan& p) { p.nodes[0].subtree_end = 9; }),
              HasSubstr("node.subtree_end[0] is 9"));
  EXPECT_THAT(error_after([](BatchPlan& p) { p.nodes[0].subtree_end = 5; }),
              HasSubstr("node.subtree_end"));
  EXPECT_THAT(error_after([](BatchPlan& p) { p.nodes[1].parent = 1; }),
              HasSubstr("node.parent[1] is 1"));
}

TEST(PlanCheck, MapsMustBeEachOthersInverse) {
  EXPECT_THAT(error_after([](BatchPlan& p) { p.scatter[0] = 6; }), HasSubstr("scatter[0] is 6"));
  EXPECT_THAT(error_after([](BatchPlan& p) { p.gather[5] = 9; }), HasSubstr("gather[5] is 9"));
  EXPECT_THAT(error_after([](BatchPlan& p) { p.gather[1] = 0; }), HasSubstr("scatter of gather"));
  EXPECT_THAT(error_after([](BatchPlan& p) { p.gather.clear(); }),
              HasSubstr("gather has 0 entries, against 6"));
  EXPECT_THAT(error_after([](BatchPlan& p) { p.sequence_offsets.back() = 10; }),
              HasSubstr("sequence_offsets"));
  EXPECT_THAT(error_after([](BatchPlan& p) { p.sequence_offsets[1] = 8; }),
              HasSubstr("sequence_offsets[2] is 7"));
  EXPECT_THAT(error_after([](BatchPlan& p) { p.sequence_offsets.pop_back(); }),
              HasSubstr("sequence_offsets"));
  EXPECT_THAT(error_after([](BatchPlan& p) { p.sequence_offsets.clear(); }),
              HasSubstr("sequence_offsets"));
}

}  // namespace
}  // namespace espalier::models
