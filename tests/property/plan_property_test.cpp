// Properties of batch plans, over random batches with shared prefixes.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "scheduler/batch_runner.h"
#include "scheduler/plan_builder.h"
#include "tests/reference/map_trie.h"
#include "tests/reference/naive_trie.h"
#include "tests/unit/scheduler/fake_forward_pass.h"

namespace espalier::scheduler {
namespace {

using engine::BatchPlan;
using engine::DedupMode;
using reference::NaiveSequence;
using Batch = std::vector<NaiveSequence>;

constexpr DedupMode kModes[] = {DedupMode::kTrie, DedupMode::kRadixMlp, DedupMode::kOff};
constexpr int kBatches = 3000;

/// A number in [0, end).
uint32_t below(std::mt19937& random, size_t end) { return static_cast<uint32_t>(random() % end); }

/// Sequences that begin like one another: each takes a prefix of an earlier one, of any length, and
/// goes on on its own with few or many different tokens.
Batch random_batch(std::mt19937& random) {
  Batch batch;
  const size_t sequences = 1 + below(random, 24);
  const uint64_t tenants = 1 + below(random, 3);
  const uint32_t alphabet = below(random, 2) == 0 ? 2 : 100'000;
  for (size_t s = 0; s < sequences; ++s) {
    NaiveSequence sequence;
    sequence.tenant = (below(random, tenants)) * 0x100000001U;
    sequence.wants_all = below(random, 4) == 0;
    if (!batch.empty() && below(random, 4) != 0) {
      const std::vector<uint32_t>& earlier = batch[below(random, batch.size())].ids;
      const size_t shared = below(random, earlier.size() + 1);
      sequence.ids.assign(earlier.begin(), earlier.begin() + shared);
    }
    const size_t own = below(random, 40);
    for (size_t i = 0; i < own || sequence.ids.empty(); ++i) {
      sequence.ids.push_back(below(random, alphabet));
    }
    batch.push_back(std::move(sequence));
  }
  return batch;
}

/// One builder for many batches, as a planner has: what a batch leaves behind would show in the
/// next.
class Builders {
 public:
  const BatchPlan& build(const Batch& batch, DedupMode dedup) {
    PlanBuilder& builder = builders_[static_cast<size_t>(dedup)];
    BatchPlan& plan = plans_[static_cast<size_t>(dedup)];
    builder.clear();
    size_t rows = 0;
    for (const NaiveSequence& sequence : batch) {
      const size_t price = builder.new_rows(sequence.tenant, sequence.ids);
      builder.add(sequence.tenant, sequence.ids,
                  sequence.wants_all ? WantedRows::kAll : WantedRows::kLast);
      rows += price;
      EXPECT_EQ(builder.rows(), rows);
    }
    builder.build(plan);
    return plan;
  }

  /// Of the last batch that was built for `dedup`.
  std::vector<size_t> new_rows(size_t sequences, DedupMode dedup) const {
    std::vector<size_t> result;
    for (size_t s = 0; s < sequences; ++s) {
      result.push_back(builders_[static_cast<size_t>(dedup)].new_rows_of(s));
    }
    return result;
  }

 private:
  PlanBuilder builders_[3] = {PlanBuilder(DedupMode::kTrie), PlanBuilder(DedupMode::kRadixMlp),
                              PlanBuilder(DedupMode::kOff)};
  BatchPlan plans_[3];
};

/// The tokens on the path from the start to `end`, read from nodes and parents.
std::vector<uint32_t> path_tokens(const BatchPlan& plan, engine::SequenceEnd end) {
  std::vector<uint32_t> reversed;
  uint32_t rows_end = end.row + 1;
  for (uint32_t n = end.node; n != engine::kNoParent; n = plan.nodes[n].parent) {
    for (uint32_t row = std::min(rows_end, plan.nodes[n].end); row > plan.nodes[n].begin; --row) {
      reversed.push_back(plan.token_ids[row - 1]);
    }
    rows_end = UINT32_MAX;
  }
  return {reversed.rbegin(), reversed.rend()};
}

void expect_nodes_well_formed(const BatchPlan& plan) {
  uint32_t next_row = 0;
  for (uint32_t n = 0; n < plan.nodes.size(); ++n) {
    const engine::TrieNode& node = plan.nodes[n];
    EXPECT_EQ(node.begin, next_row);  // preorder: nodes tile the rows
    EXPECT_LT(node.begin, node.end);
    EXPECT_LE(node.end, node.subtree_end);
    EXPECT_LE(node.subtree_end, plan.compact_rows());
    next_row = node.end;
    if (node.parent == engine::kNoParent) {
      EXPECT_EQ(node.position, 0U);
    } else {
      ASSERT_LT(node.parent, n);
      const engine::TrieNode& parent = plan.nodes[node.parent];
      EXPECT_GE(node.begin, parent.end);
      EXPECT_LE(node.subtree_end, parent.subtree_end);
      EXPECT_EQ(node.position, parent.position + (parent.end - parent.begin));
    }
    // Descendants, and they alone, lie in [end, subtree_end).
    for (uint32_t d = n + 1; d < plan.nodes.size(); ++d) {
      uint32_t above = d;
      while (above != engine::kNoParent && above != n) {
        above = plan.nodes[above].parent;
      }
      EXPECT_EQ(above == n, plan.nodes[d].begin < node.subtree_end);
    }
    for (uint32_t row = node.begin; row < node.end; ++row) {
      EXPECT_EQ(plan.positions[row], node.position + (row - node.begin));
    }
  }
  EXPECT_EQ(next_row, plan.compact_rows());
}

TEST(PlanProperty, APlanIsWhatTheQuadraticTwinSaysInEveryMode) {
  std::mt19937 random(1);
  Builders builders;
  for (int i = 0; i < kBatches; ++i) {
    const Batch batch = random_batch(random);
    for (const DedupMode dedup : kModes) {
      const BatchPlan expected = reference::naive_plan(batch, dedup);
      ASSERT_EQ(reference::first_difference(builders.build(batch, dedup), expected), nullptr)
          << "batch " << i << ", mode " << static_cast<int>(dedup);
    }
  }
}

TEST(PlanProperty, AHundredThousandBatchesAreWhatAMapTrieMakesOfThem) {
  std::mt19937 random(8);
  Builders builders;
  for (int i = 0; i < 100'000; ++i) {
    const Batch batch = random_batch(random);
    const BatchPlan expected = reference::map_trie_plan(batch);
    const BatchPlan& plan = builders.build(batch, DedupMode::kRadixMlp);
    ASSERT_EQ(plan.token_ids, expected.token_ids) << "batch " << i;
    ASSERT_EQ(plan.positions, expected.positions) << "batch " << i;
    ASSERT_EQ(plan.scatter, expected.scatter) << "batch " << i;
    ASSERT_EQ(plan.gather, expected.gather) << "batch " << i;
    ASSERT_EQ(plan.sequence_offsets, expected.sequence_offsets) << "batch " << i;
    for (size_t s = 0; s < batch.size(); ++s) {
      ASSERT_EQ(plan.ends[s].row, expected.scatter[expected.sequence_offsets[s + 1] - 1]);
    }
  }
}

TEST(PlanProperty, CompactRowsAreTheDistinctPrefixesOfEachTenant) {
  std::mt19937 random(2);
  Builders builders;
  for (int i = 0; i < kBatches; ++i) {
    const Batch batch = random_batch(random);
    const size_t distinct = reference::distinct_prefixes(batch).size();
    ASSERT_EQ(builders.build(batch, DedupMode::kTrie).compact_rows(), distinct);
    ASSERT_EQ(builders.build(batch, DedupMode::kRadixMlp).compact_rows(), distinct);
  }
}

TEST(PlanProperty, EachRowIsNewToTheFirstSequenceOfItsTenantThatHoldsIt) {
  std::mt19937 random(9);
  Builders builders;
  for (int i = 0; i < kBatches; ++i) {
    const Batch batch = random_batch(random);
    std::set<reference::NaivePrefix> known;
    std::vector<size_t> shared, alone;
    for (const NaiveSequence& sequence : batch) {
      const size_t before = known.size();
      for (size_t length = 1; length <= sequence.ids.size(); ++length) {
        known.insert(reference::prefix_of(sequence, length));
      }
      shared.push_back(known.size() - before);
      alone.push_back(sequence.ids.size());
    }
    for (const DedupMode dedup : kModes) {
      const size_t rows = builders.build(batch, dedup).compact_rows();
      const std::vector<size_t> new_rows = builders.new_rows(batch.size(), dedup);
      ASSERT_EQ(new_rows, dedup == DedupMode::kOff ? alone : shared) << "batch " << i;
      ASSERT_EQ(std::accumulate(new_rows.begin(), new_rows.end(), size_t{0}), rows);
    }
  }
}

// Whether it wants the last state or all, whatever the others of its path and its twins want.
TEST(PlanProperty, EverySequenceGetsTheStatesThatItWantsInTheirOrder) {
  std::mt19937 random(10);
  Builders builders;
  testing::FakeForwardPass pass;
  size_t mixed_twins = 0;
  for (int i = 0; i < kBatches; ++i) {
    Batch batch = random_batch(random);
    NaiveSequence twin = batch[below(random, batch.size())];
    twin.wants_all = !twin.wants_all;
    mixed_twins += twin.ids.size() > 1 ? 1 : 0;
    batch.insert(batch.begin() + below(random, batch.size() + 1), twin);
    for (const DedupMode dedup : kModes) {
      const BatchPlan& plan = builders.build(batch, dedup);
      const engine::ConstMatView states = pass.run(plan, [](size_t, size_t) { return true; });
      for (size_t s = 0; s < batch.size(); ++s) {
        const WantedRows wanted = batch[s].wants_all ? WantedRows::kAll : WantedRows::kLast;
        ASSERT_EQ(copy_hidden_states(plan, states, s, wanted),
                  testing::expected_states({batch[s].ids, wanted}))
            << "batch " << i << ", sequence " << s;
      }
    }
  }
  EXPECT_GT(mixed_twins, kBatches / 2U);
}

TEST(PlanProperty, NodesTileTheRowsAndSubtreesHoldTheDescendantsAlone) {
  std::mt19937 random(3);
  Builders builders;
  for (int i = 0; i < kBatches / 3 && !HasFailure(); ++i) {
    const Batch batch = random_batch(random);
    for (const DedupMode dedup : kModes) {
      expect_nodes_well_formed(builders.build(batch, dedup));
    }
  }
}

TEST(PlanProperty, EverySequenceEndsAtTheEndOfItsOwnPath) {
  std::mt19937 random(4);
  Builders builders;
  for (int i = 0; i < kBatches; ++i) {
    const Batch batch = random_batch(random);
    for (const DedupMode dedup : kModes) {
      const BatchPlan& plan = builders.build(batch, dedup);
      ASSERT_EQ(plan.ends.size(), batch.size());
      for (size_t s = 0; s < batch.size(); ++s) {
        ASSERT_GE(plan.ends[s].row, plan.nodes[plan.ends[s].node].begin);
        ASSERT_LT(plan.ends[s].row, plan.nodes[plan.ends[s].node].end);
        ASSERT_EQ(path_tokens(plan, plan.ends[s]), batch[s].ids);
      }
    }
  }
}

TEST(PlanProperty, ScatterAndGatherUndoEachOther) {
  std::mt19937 random(5);
  Builders builders;
  for (int i = 0; i < kBatches; ++i) {
    const Batch batch = random_batch(random);
    const BatchPlan& plan = builders.build(batch, DedupMode::kRadixMlp);
    std::vector<uint32_t> ids, positions;
    for (const NaiveSequence& sequence : batch) {
      ASSERT_EQ(plan.sequence_offsets[&sequence - batch.data()], ids.size());
      for (uint32_t p = 0; p < sequence.ids.size(); ++p) {
        ids.push_back(sequence.ids[p]);
        positions.push_back(p);
      }
    }
    ASSERT_EQ(plan.sequence_offsets.size(), batch.size() + 1);
    ASSERT_EQ(plan.sequence_offsets.back(), ids.size());
    ASSERT_EQ(plan.scatter.size(), ids.size());
    ASSERT_EQ(plan.gather.size(), plan.compact_rows());
    for (uint32_t full = 0; full < ids.size(); ++full) {
      const uint32_t row = plan.scatter[full];
      ASSERT_EQ(plan.token_ids[row], ids[full]);
      ASSERT_EQ(plan.positions[row], positions[full]);
      ASSERT_LE(plan.gather[row], full);  // the first full row that holds it
    }
    for (uint32_t row = 0; row < plan.compact_rows(); ++row) {
      ASSERT_EQ(plan.scatter[plan.gather[row]], row);
    }
  }
}

TEST(PlanProperty, MapsAreThePublishedOnesPermutedToPreorder) {
  std::mt19937 random(6);
  Builders builders;
  for (int i = 0; i < kBatches / 10; ++i) {
    Batch batch = random_batch(random);
    std::vector<uint32_t> ids, positions, offsets = {0};
    for (NaiveSequence& sequence : batch) {
      sequence.tenant = 0;  // the published maps know no tenants
      ids.insert(ids.end(), sequence.ids.begin(), sequence.ids.end());
      positions.resize(ids.size());
      std::iota(positions.begin() + offsets.back(), positions.end(), 0U);
      offsets.push_back(static_cast<uint32_t>(ids.size()));
    }
    const BatchPlan& plan = builders.build(batch, DedupMode::kRadixMlp);
    const reference::FirstOccurrenceMaps maps =
        reference::first_occurrence_maps(ids, positions, offsets);
    ASSERT_EQ(plan.compact_rows(), maps.compact_ids.size());
    for (size_t full = 0; full < ids.size(); ++full) {
      ASSERT_EQ(plan.gather[plan.scatter[full]], maps.gather[maps.scatter[full]]);
    }
  }
}

TEST(PlanProperty, TheOrderOfRequestsChangesNothingButTheOrderOfTheEnds) {
  std::mt19937 random(7);
  Builders builders;
  for (int i = 0; i < kBatches; ++i) {
    const Batch batch = random_batch(random);
    const BatchPlan plan = builders.build(batch, DedupMode::kTrie);
    std::vector<size_t> order(batch.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    Batch shuffled;
    BatchPlan expected = plan;
    for (size_t s = 0; s < order.size(); ++s) {
      shuffled.push_back(batch[order[s]]);
      expected.ends[s] = plan.ends[order[s]];
    }
    ASSERT_EQ(reference::first_difference(builders.build(shuffled, DedupMode::kTrie), expected),
              nullptr);
  }
}

}  // namespace
}  // namespace espalier::scheduler
