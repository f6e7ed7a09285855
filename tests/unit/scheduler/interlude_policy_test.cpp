#include "scheduler/interlude_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/interlude_planner.h"
#include "tests/unit/scheduler/request_fixture.h"

namespace espalier::scheduler {
namespace {

using testing::admit;
using ::testing::ElementsAre;
using testing::indices;
using testing::queue_of;
using testing::submission_of;
using namespace std::chrono_literals;

TEST(PassPace, ExtrapolatesFromWhatIsDone) {
  const Clock::time_point started = Clock::now();
  PassPace pace(started);
  EXPECT_EQ(pace.seconds_left(), 0);
  EXPECT_EQ(pace.rows_per_second(1000), 0);
  pace.reached(1, 4, started + 10s);
  EXPECT_DOUBLE_EQ(pace.seconds_left(), 30);
  EXPECT_DOUBLE_EQ(pace.rows_per_second(1000), 25);
  pace.reached(4, 4, started + 20s);
  EXPECT_DOUBLE_EQ(pace.seconds_left(), 0);
  EXPECT_DOUBLE_EQ(pace.rows_per_second(1000), 50);
}

TEST(PassPace, DoesNotCountTheTimeThatThePassStoodStill) {
  const Clock::time_point started = Clock::now();
  PassPace pace(started);
  pace.reached(1, 4, started + 10s);
  pace.stood_still(5);
  EXPECT_DOUBLE_EQ(pace.own_seconds(), 10);
  pace.reached(2, 4, started + 25s);
  EXPECT_DOUBLE_EQ(pace.own_seconds(), 20);
  EXPECT_DOUBLE_EQ(pace.still_seconds(), 5);
  EXPECT_DOUBLE_EQ(pace.seconds_left(), 20);
  EXPECT_DOUBLE_EQ(pace.own_seconds_until(started + 45s), 40);
}

class InterludeBudgetTest : public ::testing::Test {
 protected:
  /// Of a pass over one sequence of `tokens` that has done `steps_done` of 100 steps in `seconds`.
  std::optional<InterludeBudget> budget(size_t tokens, size_t steps_done, double seconds,
                                        double still_seconds = 0) {
    Batch running;
    running.longest = tokens;
    running.plan.token_ids.resize(tokens);
    const Clock::time_point started = Clock::now();
    PassPace pace(started);
    pace.stood_still(still_seconds);
    pace.reached(steps_done, 100,
                 started + std::chrono::duration_cast<Clock::duration>(
                               std::chrono::duration<double>(seconds + still_seconds)));
    return interlude_budget(limits_, running, pace, models_);
  }

  SchedulerLimits limits_;
  std::vector<bool> models_ = {true};
};

TEST_F(InterludeBudgetTest, OnlyAPassThatTakesLongIsInterrupted) {
  EXPECT_TRUE(budget(32768, 1, 0.3).has_value());
  EXPECT_FALSE(budget(32768, 1, 0.2).has_value());   // has only begun
  EXPECT_FALSE(budget(32768, 50, 0.9).has_value());  // is soon done
  EXPECT_FALSE(budget(32768, 100, 100).has_value());
  EXPECT_FALSE(budget(32768, 0, 100).has_value());  // says nothing
}

TEST_F(InterludeBudgetTest, InterludesHaveAShareOfThePassesTime) {
  EXPECT_TRUE(budget(32768, 10, 4, 3.9).has_value());
  EXPECT_FALSE(budget(32768, 10, 4, 4.1).has_value());
  limits_.interludes.share_max = 0.25;
  EXPECT_TRUE(budget(32768, 10, 3, 0.9).has_value());
  EXPECT_FALSE(budget(32768, 10, 3, 1.1).has_value());
}

TEST_F(InterludeBudgetTest, AParagraphAlwaysOvertakesATextSeveralTimesAsLong) {
  EXPECT_EQ(budget(32768, 1, 10)->ticket_tokens_max, 640U);  // at 33 rows a second
  EXPECT_EQ(budget(4096, 1, 10)->ticket_tokens_max, 512U);
  EXPECT_EQ(budget(7, 1, 10)->ticket_tokens_max, 0U);
}

TEST_F(InterludeBudgetTest, AFastModelLetsMoreIn) {
  const auto fast = budget(32768, 10, 3.2768);  // 1000 rows a second
  EXPECT_NEAR(static_cast<double>(fast->ticket_tokens_max), 2000, 1);
  EXPECT_NEAR(static_cast<double>(fast->rows_max), 500, 1);
  const auto slow = budget(32768, 10, 3276.8);  // 1 row a second
  EXPECT_EQ(slow->ticket_tokens_max, 640U);
  EXPECT_EQ(slow->rows_max, 128U);
}

TEST_F(InterludeBudgetTest, AnInterludeIsNoLargerThanABatch) {
  limits_.batch_rows_max = 100;
  EXPECT_EQ(budget(32768, 1, 10)->rows_max, 100U);
  limits_.batch_rows_max = 1000;
  EXPECT_EQ(budget(1000000, 10, 1)->rows_max, 1000U);
}

/// What an interlude takes from a queue of three requests.
class InterludePlannerTest : public ::testing::Test {
 protected:
  InterludePlannerTest() {
    limits_.batch_rows_max = 4096;
    costs_.emplace_back(PassCosts{});
    costs_.emplace_back(PassCosts{});
  }

  Batch plan(size_t ticket_tokens_max, size_t rows_max) {
    InterludePlanner planner(limits_, costs_, *queue_);
    Batch batch;
    planner.next({ticket_tokens_max, rows_max, &models_}, batch);
    return batch;
  }

  SchedulerLimits limits_;
  CostModels costs_;
  std::vector<bool> models_ = {true, true};
  std::shared_ptr<TicketQueue> queue_ = queue_of(2);
};

TEST_F(InterludePlannerTest, TakesShortTicketsInTheirOrder) {
  const auto a = admit(queue_, submission_of({{1, 1, 1}}));
  const auto b = admit(queue_, submission_of({{2, 2}, {3}}));
  const auto c = admit(queue_, submission_of({{4}}));
  const Batch batch = plan(2, 10);
  EXPECT_THAT(indices(batch.tickets()), ElementsAre(0, 1, 0));
  EXPECT_EQ(batch.tickets()[0].request, b);
  EXPECT_EQ(batch.longest, 2U);
  EXPECT_EQ(queue_->depth().tokens, 3U);
}

TEST_F(InterludePlannerTest, KeepsToItsRowsButTakesOneTicketAnyway) {
  const auto a = admit(queue_, submission_of({{1, 1, 1}, {1, 1, 2}, {5}}));
  EXPECT_THAT(indices(plan(3, 1).tickets()), ElementsAre(0));
  EXPECT_THAT(indices(plan(3, 4).tickets()), ElementsAre(1, 2));
}

TEST_F(InterludePlannerTest, PassesOverModelsWithoutAPassForInterludes) {
  models_ = {false, true};
  const auto a = admit(queue_, submission_of({{1}}));
  Submission other = submission_of({{2}});
  other.model = 1;
  const auto b = admit(queue_, std::move(other));
  const Batch batch = plan(5, 10);
  ASSERT_EQ(batch.tickets().size(), 1U);
  EXPECT_EQ(batch.model(), 1U);
  EXPECT_TRUE(plan(5, 10).tickets().empty());
}

TEST_F(InterludePlannerTest, WhatHasEndedOrExpiredDoesNotRun) {
  const auto ended = admit(queue_, submission_of({{1}}));
  ended->fail(shutting_down_failure());
  Submission late = submission_of({{2}});
  late.deadline = Clock::now() - 1s;
  const auto expired = admit(queue_, std::move(late));
  EXPECT_TRUE(plan(5, 10).tickets().empty());
  EXPECT_EQ(expired->take().error().kind, FailureKind::kDeadline);
}

}  // namespace
}  // namespace espalier::scheduler
