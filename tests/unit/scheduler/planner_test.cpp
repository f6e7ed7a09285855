#include "scheduler/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/scheduler/request_fixture.h"

namespace espalier::scheduler {
namespace {

using testing::admit;
using ::testing::ElementsAre;
using testing::indices;
using testing::queue_of;
using testing::submission_of;
using namespace std::chrono_literals;

class PlannerTest : public ::testing::Test {
 protected:
  PlannerTest() { costs_.emplace_back(PassCosts{}); }

  bool plan_next(Batch& batch) {
    return planner_.plan_next(*queue_, BatchRules::of(limits_), Clock::now(), batch);
  }

  SchedulerLimits limits_;
  CostModels costs_;
  std::shared_ptr<TicketQueue> queue_ = queue_of();
  Planner planner_{engine::DedupMode::kTrie, costs_};
};

TEST_F(PlannerTest, PlansTheNextBatchOfTheQueue) {
  limits_.batch_rows_max = 4;
  const auto request = admit(queue_, submission_of({{1, 2}, {1, 3}, {7, 8}, {9}}));
  Batch batch;
  ASSERT_TRUE(plan_next(batch));
  EXPECT_THAT(indices(batch.tickets()), ElementsAre(0, 1));
  EXPECT_THAT(batch.plan.token_ids, ElementsAre(1, 2, 3));
  EXPECT_THAT(batch.new_rows, ElementsAre(2, 1));
  EXPECT_EQ(batch.full_rows, 4U);
  EXPECT_EQ(batch.longest, 2U);
  EXPECT_EQ(batch.work.rows, 3);
  EXPECT_EQ(batch.work.pairs, 1 + 2 + 2);
  EXPECT_EQ(batch.work.wanted, 2);
  EXPECT_GE(batch.plan_ended, batch.plan_started);
  ASSERT_TRUE(queue_->dispatch(batch.choice));
  ASSERT_TRUE(plan_next(batch));
  EXPECT_THAT(indices(batch.tickets()), ElementsAre(2, 3));
  EXPECT_THAT(batch.plan.token_ids, ElementsAre(7, 8, 9));
  EXPECT_THAT(batch.new_rows, ElementsAre(2, 1));
  ASSERT_TRUE(queue_->dispatch(batch.choice));
  EXPECT_FALSE(plan_next(batch));
  EXPECT_TRUE(batch.tickets().empty());
}

TEST_F(PlannerTest, PredictsByWhatHasRun) {
  limits_.batch_seconds_max = 100;
  const auto request = admit(queue_, submission_of({{1, 2}, {3}}));
  Batch batch;
  ASSERT_TRUE(plan_next(batch));
  EXPECT_EQ(batch.predicted_seconds, 0);
  for (int i = 0; i < 50; ++i) costs_[0].observe({10, 55, 1}, 5);
  ASSERT_TRUE(plan_next(batch));
  EXPECT_NEAR(batch.predicted_seconds, 1.5, 0.2);
}

TEST_F(PlannerTest, AnswersExpiredRequestsThatNobodyWaitsFor) {
  Submission late = submission_of({{1}});
  late.deadline = Clock::now() - 1s;
  const auto request = admit(queue_, late);
  Batch batch;
  EXPECT_FALSE(plan_next(batch));
  ASSERT_TRUE(request->ended());
  EXPECT_EQ(request->take().error().kind, FailureKind::kDeadline);
  EXPECT_TRUE(queue_->open_requests().empty());
}

TEST_F(PlannerTest, SkipsCancelledRequests) {
  const auto cancelled = admit(queue_, submission_of({{1}}));
  const auto wanted = admit(queue_, submission_of({{2}}));
  cancelled->fail({FailureKind::kCancelled, "", {}});
  Batch batch;
  ASSERT_TRUE(plan_next(batch));
  EXPECT_THAT(batch.plan.token_ids, ElementsAre(2));
}

TEST_F(PlannerTest, MarksTheTimeAtWhichARequestIsFirstTaken) {
  const auto request = std::make_shared<RequestState>(submission_of({{1}}), queue_,
                                                      Clock::now() - 1h);  // has waited long
  ASSERT_EQ(queue_->admit(request), QueueAnswer::kAdmitted);
  Batch batch;
  ASSERT_TRUE(plan_next(batch));
  mark_taken(batch, Clock::now());
  mark_taken(batch, Clock::now() + 1h);
  request->fulfil(0, {}, 1, Clock::now());
  const Result<Completed> result = request->take();
  EXPECT_GE(result->stats.queue_seconds, 3600.0);
  EXPECT_LT(result->stats.queue_seconds, 3700.0);
  EXPECT_LT(result->stats.compute_seconds, 3600.0);
}

}  // namespace
}  // namespace espalier::scheduler
