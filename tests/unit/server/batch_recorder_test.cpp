#include "server/debug/batch_recorder.h"

#include <gmock/gmock.h>

#include "debug_test_batches.h"
#include "server/observe/batch_fan_out.h"

namespace espalier::server {
namespace {

TEST(BatchRecorder, HasNothingBeforeTheFirstBatch) {
  const BatchRecorder recorder;
  EXPECT_TRUE(recorder.batches().empty());
  EXPECT_EQ(recorder.trie().batch.number, 0U);
  EXPECT_TRUE(recorder.trie().nodes.empty());
}

TEST(BatchRecorder, KeepsTheLastBatchesOldestFirst) {
  BatchRecorder recorder;
  const auto plan = branching_plan();
  auto report = report_of(plan);
  for (size_t i = 1; i <= BatchRecorder::kBatchesKept + 10; ++i) {
    report.sequences = i;
    recorder.on_batch(report);
  }
  const auto batches = recorder.batches();
  ASSERT_EQ(batches.size(), BatchRecorder::kBatchesKept);
  EXPECT_EQ(batches.front().number, 11U);
  EXPECT_EQ(batches.front().sequences, 11U);
  EXPECT_EQ(batches.back().number, BatchRecorder::kBatchesKept + 10);
}

TEST(BatchRecorder, KeepsTheShapeOfTheLastTrieAfterItsPlanHasGone) {
  BatchRecorder recorder;
  const auto before = wide_plan(100);
  recorder.on_batch(report_of(before));
  {
    const auto plan = branching_plan();
    recorder.on_batch(report_of(plan));
  }
  const auto trie = recorder.trie();
  EXPECT_EQ(trie.batch.number, 2U);
  EXPECT_EQ(trie.batch.full_rows, 30U);
  EXPECT_EQ(trie.nodes.size(), 5U);
  EXPECT_EQ(trie.ends.size(), 4U);
}

TEST(BatchFanOut, TellsEveryObserverThereIs) {
  BatchRecorder first, second;
  BatchFanOut observers({&first, nullptr, &second});
  const auto plan = branching_plan();
  observers.on_batch(report_of(plan));
  EXPECT_EQ(first.batches().size(), 1U);
  EXPECT_EQ(second.batches().size(), 1U);
}

}  // namespace
}  // namespace espalier::server
