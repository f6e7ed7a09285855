#include "scheduler/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/scheduler/request_fixture.h"

namespace espalier::scheduler {
namespace {

using testing::admit;
using ::testing::ElementsAre;
using testing::indices;
using testing::submission_of;
using namespace std::chrono_literals;

TEST(Planner, PlansTheNextBatchOfTheQueue) {
  const auto queue = std::make_shared<TicketQueue>(1, 100);
  SchedulerLimits limits;
  limits.batch_rows_max = 4;
  Planner planner(limits);
  const auto request = admit(queue, submission_of({{1, 2}, {1, 3}, {7, 8}, {9}}));
  Batch batch;
  ASSERT_TRUE(planner.plan_next(*queue, batch));
  EXPECT_THAT(indices(batch.tickets), ElementsAre(0, 1));
  EXPECT_THAT(batch.plan.token_ids, ElementsAre(1, 2, 3));
  EXPECT_EQ(batch.full_rows, 4U);
  EXPECT_GE(batch.plan_seconds, 0.0);
  ASSERT_TRUE(planner.plan_next(*queue, batch));
  EXPECT_THAT(indices(batch.tickets), ElementsAre(2, 3));
  EXPECT_THAT(batch.plan.token_ids, ElementsAre(7, 8, 9));
  EXPECT_FALSE(planner.plan_next(*queue, batch));
  EXPECT_TRUE(batch.tickets.empty());
}

TEST(Planner, AnswersExpiredRequestsThatNobodyWaitsFor) {
  const auto queue = std::make_shared<TicketQueue>(1, 100);
  Planner planner(SchedulerLimits{});
  Submission late = submission_of({{1}});
  late.deadline = Clock::now() - 1s;
  const auto request = admit(queue, late);
  Batch batch;
  EXPECT_FALSE(planner.plan_next(*queue, batch));
  ASSERT_TRUE(request->ended());
  EXPECT_EQ(request->take().error().kind, FailureKind::kDeadline);
  EXPECT_TRUE(queue->open_requests().empty());
}

TEST(Planner, SkipsCancelledRequests) {
  const auto queue = std::make_shared<TicketQueue>(1, 100);
  Planner planner(SchedulerLimits{});
  const auto cancelled = admit(queue, submission_of({{1}}));
  const auto wanted = admit(queue, submission_of({{2}}));
  cancelled->fail({FailureKind::kCancelled, "", {}});
  Batch batch;
  ASSERT_TRUE(planner.plan_next(*queue, batch));
  EXPECT_THAT(batch.plan.token_ids, ElementsAre(2));
}

TEST(Planner, MarksTheTimeAtWhichARequestIsFirstTaken) {
  const auto queue = std::make_shared<TicketQueue>(1, 100);
  Planner planner(SchedulerLimits{});
  const auto request = std::make_shared<RequestState>(submission_of({{1}}), queue,
                                                      Clock::now() - 1h);  // has waited long
  ASSERT_EQ(queue->admit(request), QueueAnswer::kAdmitted);
  Batch batch;
  ASSERT_TRUE(planner.plan_next(*queue, batch));
  request->fulfil(0, {}, Clock::now());
  const Result<Completed> result = request->take();
  EXPECT_GE(result->stats.queue_seconds, 3600.0);
  EXPECT_LT(result->stats.compute_seconds, 3600.0);
}

}  // namespace
}  // namespace espalier::scheduler
