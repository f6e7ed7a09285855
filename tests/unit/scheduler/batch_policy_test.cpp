#include "scheduler/batch_policy.h"

#include <gtest/gtest.h>

#include "tests/unit/scheduler/request_fixture.h"

namespace espalier::scheduler {
namespace {

using engine::DedupMode;
using testing::submission_of;

/// How many of the sequences of `submission` the policy takes into one batch.
size_t batch_size(SchedulerLimits limits, Submission submission) {
  const auto request = std::make_shared<RequestState>(std::move(submission),
                                                      std::weak_ptr<TicketQueue>{}, Clock::now());
  PlanBuilder builder(limits.dedup);
  BatchPolicy policy(limits, builder);
  size_t taken = 0;
  while (taken < request->sequences().size() && policy.fits({request, taken})) {
    policy.add({request, taken});
    ++taken;
  }
  return taken;
}

SchedulerLimits limits_of(DedupMode dedup, size_t rows, size_t full_rows) {
  SchedulerLimits limits;
  limits.dedup = dedup;
  limits.batch_rows_max = rows;
  limits.batch_full_rows_max = full_rows;
  return limits;
}

TEST(BatchPolicy, FillsABatchToItsLastRow) {
  const auto sequences = submission_of({{1, 2}, {3, 4}, {5, 6}});
  EXPECT_EQ(batch_size(limits_of(DedupMode::kTrie, 4, 100), sequences), 2U);
  EXPECT_EQ(batch_size(limits_of(DedupMode::kTrie, 5, 100), sequences), 2U);
  EXPECT_EQ(batch_size(limits_of(DedupMode::kTrie, 6, 100), sequences), 3U);
}

TEST(BatchPolicy, CountsSharedRowsOnceWhereTheyAreComputedOnce) {
  const auto sequences = submission_of({{1, 2, 3}, {1, 2, 4}, {1, 2, 5}});
  EXPECT_EQ(batch_size(limits_of(DedupMode::kTrie, 5, 100), sequences), 3U);
  EXPECT_EQ(batch_size(limits_of(DedupMode::kRadixMlp, 5, 100), sequences), 3U);
  EXPECT_EQ(batch_size(limits_of(DedupMode::kOff, 5, 100), sequences), 1U);
  EXPECT_EQ(batch_size(limits_of(DedupMode::kOff, 9, 100), sequences), 3U);
}

TEST(BatchPolicy, CapsFullRowsEvenWhereEverythingIsShared) {
  const auto sequences = submission_of({{1, 2, 3}, {1, 2, 3}, {1, 2, 3}});
  for (const DedupMode dedup : {DedupMode::kTrie, DedupMode::kRadixMlp, DedupMode::kOff}) {
    EXPECT_EQ(batch_size(limits_of(dedup, 100, 6), sequences), 2U);
    EXPECT_EQ(batch_size(limits_of(dedup, 100, 8), sequences), 2U);
  }
}

TEST(BatchPolicy, ASequenceLargerThanABatchRunsAlone) {
  EXPECT_EQ(batch_size(limits_of(DedupMode::kTrie, 2, 2), submission_of({{1, 2, 3}, {1}})), 1U);
  EXPECT_EQ(batch_size(limits_of(DedupMode::kTrie, 2, 2), submission_of({{1}, {1, 2, 3}})), 1U);
}

TEST(BatchPolicy, NobodyOvertakesTheTicketThatDidNotFit) {
  const auto sequences = submission_of({{1, 2}, {3, 4, 5}, {6}});
  EXPECT_EQ(batch_size(limits_of(DedupMode::kTrie, 4, 100), sequences), 1U);
}

}  // namespace
}  // namespace espalier::scheduler
