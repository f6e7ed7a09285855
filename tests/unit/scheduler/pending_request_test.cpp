#include "scheduler/pending_request.h"

#include <gtest/gtest.h>

#include <future>

#include "tests/unit/scheduler/request_fixture.h"

namespace espalier::scheduler {
namespace {

using testing::submission_of;
using namespace std::chrono_literals;

std::shared_ptr<RequestState> request_of(Submission submission,
                                         Clock::time_point admitted = Clock::now()) {
  return std::make_shared<RequestState>(std::move(submission), std::weak_ptr<TicketQueue>{},
                                        admitted);
}

TEST(PendingRequest, IsDoneWhenItsLastSequenceIs) {
  const auto request = request_of(submission_of({{1}, {2}, {3}}));
  request->fulfil(2, {2.0F}, 1, Clock::now());
  request->fulfil(0, {0.0F}, 1, Clock::now());
  EXPECT_FALSE(request->wait_for(0ms));
  request->fulfil(1, {1.0F}, 1, Clock::now());
  ASSERT_TRUE(request->wait_for(0ms));
  const Result<Completed> result = request->take();
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->sequences,
            (std::vector<HiddenStates>{{0.0F}, {1.0F}, {2.0F}}));  // in the order submitted
}

TEST(PendingRequest, ReportsWhatItCost) {
  const Clock::time_point admitted = Clock::now();
  const auto request = request_of(submission_of({{1, 2, 3}, {4}}), admitted);
  request->mark_taken(admitted + 2s);
  request->fulfil(0, {}, 2, admitted + 3s);  // one row of it was another's
  request->fulfil(1, {}, 1, admitted + 5s);
  const Result<Completed> result = request->take();
  EXPECT_EQ(result->stats.tokens, 4U);
  EXPECT_EQ(result->stats.new_rows, 3U);
  EXPECT_DOUBLE_EQ(result->stats.queue_seconds, 2);
  EXPECT_DOUBLE_EQ(result->stats.compute_seconds, 3);
}

TEST(PendingRequest, NeverReportsANegativeWait) {
  const Clock::time_point admitted = Clock::now();
  const auto request = request_of(submission_of({{1}}), admitted);
  request->mark_taken(admitted - 1ms);  // the planner had read the clock just before
  request->fulfil(0, {}, 1, admitted + 1s);
  EXPECT_DOUBLE_EQ(request->take()->stats.queue_seconds, 0);
}

TEST(PendingRequest, KeepsItsFirstOutcome) {
  const auto request = request_of(submission_of({{1}}));
  EXPECT_TRUE(request->fail({FailureKind::kCompute, "first", {}}));
  EXPECT_FALSE(request->fail({FailureKind::kDeadline, "second", {}}));
  request->fulfil(0, {1.0F}, 1, Clock::now());
  const Result<Completed> result = request->take();
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().message, "first");
}

TEST(PendingRequest, DoesNotFailOnceItIsDone) {
  const auto request = request_of(submission_of({{1}}));
  request->fulfil(0, {1.0F}, 1, Clock::now());
  EXPECT_FALSE(request->fail(shutting_down_failure()));
  EXPECT_TRUE(request->take().has_value());
}

TEST(PendingRequest, AWaiterIsAnsweredWhenTheDeadlinePasses) {
  Submission submission = submission_of({{1}});
  submission.deadline = Clock::now() + 20ms;
  const auto request = request_of(submission);
  EXPECT_TRUE(request->wait_for(1h));
  EXPECT_GE(Clock::now(), submission.deadline);
  const Result<Completed> result = request->take();
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().kind, FailureKind::kDeadline);
}

TEST(PendingRequest, AResultThatIsThereIsGivenEvenAfterTheDeadline) {
  Submission submission = submission_of({{1}});
  submission.deadline = Clock::now() - 1s;
  const auto request = request_of(submission);
  request->fulfil(0, {1.0F}, 1, Clock::now());
  EXPECT_TRUE(request->wait_for(0ms));
  EXPECT_TRUE(request->take().has_value());
}

TEST(PendingRequest, WaitsNoLongerThanItIsToldTo) {
  const auto request = request_of(submission_of({{1}}));
  EXPECT_FALSE(request->wait_for(1ms));
  EXPECT_FALSE(request->wait_for(-5ms));
}

TEST(PendingRequest, WaitsForEverWithoutOverflow) {
  const auto request = request_of(submission_of({{1}}));
  auto waiter = std::async(std::launch::async,
                           [&] { return request->wait_for(std::chrono::milliseconds::max()); });
  EXPECT_EQ(waiter.wait_for(20ms), std::future_status::timeout);
  request->fulfil(0, {1.0F}, 1, Clock::now());
  EXPECT_TRUE(waiter.get());
}

TEST(PendingRequest, CancellingIsIdempotentAndDoesNothingToAFinishedRequest) {
  const auto cancelled = request_of(submission_of({{1}}));
  RequestHandle handle(cancelled);
  handle.cancel();
  handle.cancel();
  ASSERT_TRUE(handle.wait_for(0ms));
  EXPECT_EQ(handle.take().error().kind, FailureKind::kCancelled);

  const auto done = request_of(submission_of({{1}}));
  RequestHandle done_handle(done);
  done->fulfil(0, {1.0F}, 1, Clock::now());
  done_handle.cancel();
  EXPECT_TRUE(done_handle.take().has_value());
}

TEST(PendingRequest, LettingGoOfTheHandleCancels) {
  const auto request = request_of(submission_of({{1}}));
  { const RequestHandle handle(request); }
  ASSERT_TRUE(request->ended());
  EXPECT_EQ(request->take().error().kind, FailureKind::kCancelled);
}

TEST(PendingRequestDeathTest, TakingTooEarlyOrTwiceIsAProgrammersMistake) {
  EXPECT_DEATH(request_of(submission_of({{1}}))->take(), "before it was there");
  const auto request = request_of(submission_of({{1}}));
  request->fail(shutting_down_failure());
  EXPECT_FALSE(request->take().has_value());
  EXPECT_DEATH(request->take(), "taken twice");
}

}  // namespace
}  // namespace espalier::scheduler
