#include "scheduler/admission.h"

#include <gtest/gtest.h>

#include "tests/unit/scheduler/fake_forward_pass.h"

namespace espalier::scheduler {
namespace {

using testing::submission_of;

SchedulerLimits small_limits() {
  SchedulerLimits limits;
  limits.sequence_tokens_max = 4;
  limits.queue_tickets_max = 10;
  return limits;
}

TEST(AdmissionControl, TakesWhatJustFits) {
  const AdmissionControl admission(small_limits());
  EXPECT_FALSE(
      admission.never_fits(submission_of(std::vector<std::vector<uint32_t>>(10, {1, 2, 3, 4}))));
}

TEST(AdmissionControl, ASequenceBeyondTheLimitNeverFitsAndIsNamed) {
  const AdmissionControl admission(small_limits());
  const std::optional<Failure> failure =
      admission.never_fits(submission_of({{1}, {1, 2, 3, 4, 5}}));
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->kind, FailureKind::kNeverFits);
  EXPECT_NE(failure->message.find("input 1 has 5 tokens"), std::string::npos) << failure->message;
}

TEST(AdmissionControl, MoreSequencesThanTheQueueHoldsNeverFit) {
  const AdmissionControl admission(small_limits());
  const std::optional<Failure> failure =
      admission.never_fits(submission_of(std::vector<std::vector<uint32_t>>(11, {1})));
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->kind, FailureKind::kNeverFits);
}

TEST(AdmissionControl, MoreTokensThanTheQueueHoldsNeverFit) {
  SchedulerLimits limits = small_limits();
  limits.queue_tokens_max = 7;
  const AdmissionControl admission(limits);
  EXPECT_FALSE(admission.never_fits(submission_of({{1, 2, 3, 4}, {5, 6, 7}})));
  const std::optional<Failure> failure =
      admission.never_fits(submission_of({{1, 2, 3, 4}, {5, 6, 7, 8}}));
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->kind, FailureKind::kNeverFits);
  EXPECT_NE(failure->message.find("8 tokens"), std::string::npos) << failure->message;
}

TEST(AdmissionControl, RetryAfterCountsTokensThatMustLeave) {
  SchedulerLimits limits = small_limits();
  limits.queue_tokens_max = 1000;
  AdmissionControl admission(limits);
  admission.observe_batch(0, 100, 1.0);  // 100 tokens a second
  EXPECT_EQ(admission.queue_full({1, 300}, {{2, 900}}).retry_after, std::chrono::seconds(2));
}

TEST(AdmissionControl, AsksForOneSecondBeforeAnyBatchWasSeen) {
  const AdmissionControl admission(small_limits());
  const Failure failure = admission.queue_full({1, 1}, {{10, 1'000'000}});
  EXPECT_EQ(failure.kind, FailureKind::kQueueFull);
  EXPECT_EQ(failure.retry_after, std::chrono::seconds(1));
}

TEST(AdmissionControl, ComputesRetryAfterFromTheBacklogAndTheObservedRate) {
  AdmissionControl admission(small_limits());
  admission.observe_batch(0, 100, 1.0);  // 100 tokens a second
  // 4 of 10 tickets must leave, 50 tokens each: 2 s.
  EXPECT_EQ(admission.queue_full({4, 4}, {{10, 500}}).retry_after, std::chrono::seconds(2));
  // All 10 must leave: 5 s.
  EXPECT_EQ(admission.queue_full({10, 10}, {{10, 500}}).retry_after, std::chrono::seconds(5));
  // 2 places are free already.
  EXPECT_EQ(admission.queue_full({10, 10}, {{8, 400}}).retry_after, std::chrono::seconds(4));
}

TEST(AdmissionControl, KeepsRetryAfterWithinBounds) {
  AdmissionControl fast(small_limits());
  fast.observe_batch(0, 1'000'000, 0.001);
  EXPECT_EQ(fast.queue_full({1, 1}, {{10, 10}}).retry_after, std::chrono::seconds(1));
  AdmissionControl slow(small_limits());
  slow.observe_batch(0, 1, 1e6);
  EXPECT_EQ(slow.queue_full({10, 10}, {{10, 1'000'000'000}}).retry_after,
            std::chrono::seconds(600));
}

TEST(AdmissionControl, FollowsARateThatChanges) {
  AdmissionControl admission(small_limits());
  admission.observe_batch(0, 1000, 1.0);
  for (int i = 0; i < 100; ++i) {
    admission.observe_batch(0, 10, 1.0);
  }
  EXPECT_EQ(admission.queue_full({10, 10}, {{10, 500}}).retry_after, std::chrono::seconds(50));
}

TEST(AdmissionControl, ABatchTooQuickForTheClockSaysNothing) {
  AdmissionControl admission(small_limits());
  admission.observe_batch(0, 100, 1.0);
  admission.observe_batch(0, 100, 0.0);
  EXPECT_EQ(admission.queue_full({10, 10}, {{10, 500}}).retry_after, std::chrono::seconds(5));
}

TEST(AdmissionControl, ModelsHaveRatesOfTheirOwn) {
  AdmissionControl admission(small_limits(), 3);
  EXPECT_EQ(admission.predicted_seconds(1, 500), 0);
  admission.observe_batch(0, 100'000, 1.0);
  EXPECT_DOUBLE_EQ(admission.predicted_seconds(1, 500), 0.005);  // nothing better is known
  admission.observe_batch(1, 100, 1.0);
  EXPECT_DOUBLE_EQ(admission.predicted_seconds(0, 500), 0.005);
  EXPECT_DOUBLE_EQ(admission.predicted_seconds(1, 500), 5);
  EXPECT_DOUBLE_EQ(admission.predicted_seconds(2, 500), 5);  // may be as slow as the slowest
  EXPECT_FALSE(admission.has_observed(2));
  // The backlog is that of the model that it waits for.
  EXPECT_EQ(admission.queue_full({10, 10}, {{10, 500}, {}, {}}).retry_after,
            std::chrono::seconds(1));
  EXPECT_EQ(admission.queue_full({10, 10}, {{}, {10, 500}, {}}).retry_after,
            std::chrono::seconds(5));
  EXPECT_EQ(admission.queue_full({10, 10}, {{5, 500}, {5, 500}, {}}).retry_after,
            std::chrono::seconds(6));
}

}  // namespace
}  // namespace espalier::scheduler
