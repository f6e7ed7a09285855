#include "scheduler/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "tests/unit/scheduler/fake_forward_pass.h"

namespace espalier::scheduler {
namespace {

using testing::Door;
using ::testing::ElementsAre;
using testing::expected_states;
using testing::FakeForwardPass;
using testing::submission_of;
using namespace std::chrono_literals;

constexpr auto kLong = 30s;  // beyond what any of these tests takes

SchedulerLimits limits_of(size_t batch_rows_max) {
  SchedulerLimits limits;
  limits.batch_rows_max = batch_rows_max;
  return limits;
}

/// A scheduler over one fake model whose passes wait at a door, and what the passes saw.
class SchedulerTest : public ::testing::Test {
 protected:
  void start(const SchedulerLimits& limits) {
    model_.before_run = [this](const engine::BatchPlan& plan) {
      {
        const std::lock_guard lock(mutex_);
        batches_.push_back(plan.token_ids);
      }
      door_.pass();
    };
    scheduler_ = std::make_unique<Scheduler>(std::vector<ModelPasses>{&model_}, limits, nullptr);
  }

  std::shared_ptr<PendingRequest> submit(Submission submission) {
    auto result = scheduler_->submit(std::move(submission));
    EXPECT_TRUE(result.has_value());
    return result ? *result : nullptr;
  }

  std::vector<std::vector<uint32_t>> batches() {
    const std::lock_guard lock(mutex_);
    return batches_;
  }

  static FailureKind failure_of(PendingRequest& request) {
    EXPECT_TRUE(request.wait_for(kLong));
    const Result<Completed> result = request.take();
    EXPECT_FALSE(result.has_value());
    return result ? FailureKind::kCompute : result.error().kind;
  }

  static bool completes(PendingRequest& request) {
    return request.wait_for(kLong) && request.take().has_value();
  }

  FakeForwardPass model_;
  Door door_;
  std::mutex mutex_;
  std::vector<std::vector<uint32_t>> batches_;  // token ids of each pass
  std::unique_ptr<Scheduler> scheduler_;        // destroyed first
};

TEST_F(SchedulerTest, ComputesARequest) {
  door_.open();
  start(SchedulerLimits{});
  Submission submission = submission_of({{1, 2, 3}, {1, 2}, {9}});
  submission.sequences[1].wanted = WantedRows::kAll;
  const auto request = submit(submission);
  ASSERT_TRUE(request->wait_for(kLong));
  const Result<Completed> result = request->take();
  ASSERT_TRUE(result.has_value());
  ASSERT_EQ(result->sequences.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(result->sequences[i], expected_states(submission.sequences[i]));
  }
  EXPECT_EQ(result->stats.tokens, 6U);
}

TEST_F(SchedulerTest, PutsARequestLargerThanABatchTogetherAgain) {
  door_.open();
  start(limits_of(8));
  Submission submission;
  for (uint32_t i = 0; i < 100; ++i) {
    submission.sequences.push_back({{i, i + 1, i + 2}, WantedRows::kLast});
  }
  const auto request = submit(submission);
  ASSERT_TRUE(request->wait_for(kLong));
  const Result<Completed> result = request->take();
  ASSERT_TRUE(result.has_value());
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(result->sequences[i], expected_states(submission.sequences[i]));
  }
  EXPECT_EQ(batches().size(), 50U);
}

TEST_F(SchedulerTest, TheRowsOfARequestAddUpOverItsBatches) {
  start(limits_of(5));
  const auto first = submit(submission_of({{1}}));
  door_.wait_until_arrived(1);
  // Two batches: of the second half, what begins alike is computed anew.
  const auto request = submit(submission_of({{5, 6, 7}, {5, 6, 8}, {5, 6, 9, 10, 11}}));
  const auto twin = submit(submission_of({{5, 6, 7}}));
  const auto other = submit(submission_of({{5, 6, 7}}, 2));
  door_.open();
  const auto rows_of = [](PendingRequest& pending) {
    EXPECT_TRUE(pending.wait_for(kLong));
    return pending.take()->stats.new_rows;
  };
  size_t rows = 0;
  for (const auto& pending : {first, request, twin, other}) rows += rows_of(*pending);
  size_t computed = 0;
  for (const std::vector<uint32_t>& batch : batches()) computed += batch.size();
  EXPECT_EQ(rows, computed);
  EXPECT_GE(batches().size(), 4U);
}

TEST_F(SchedulerTest, AnIdlePipelineStartsAtOnce) {
  start(SchedulerLimits{});
  const auto request = submit(submission_of({{1}}));
  door_.wait_until_arrived(1);  // though nothing else comes that could fill the batch
  EXPECT_EQ(scheduler_->queue_depth().tickets, 0U);
  door_.open();
  EXPECT_TRUE(completes(*request));
}

TEST_F(SchedulerTest, RunsOnePassAtATimeAndWhatIsPlannedAheadStillWaits) {
  start(limits_of(1));
  const auto request = submit(submission_of({{1}, {2}, {3}, {4}, {5}}));
  door_.wait_until_arrived(1);
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(scheduler_->queue_depth().tickets, 4U);
  door_.let_in(1);
  door_.wait_until_arrived(2);
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(scheduler_->queue_depth().tickets, 3U);
  EXPECT_EQ(door_.arrived(), 2U);  // one pass at a time
  door_.open();
  EXPECT_TRUE(completes(*request));
  EXPECT_THAT(batches(), ElementsAre(ElementsAre(1), ElementsAre(2), ElementsAre(3), ElementsAre(4),
                                     ElementsAre(5)));
}

TEST_F(SchedulerTest, WhoeverComesWhileABatchRunsIsInTheNextOneAndSharesItsPrefixes) {
  start(SchedulerLimits{});
  const auto first = submit(submission_of({{1}}));
  door_.wait_until_arrived(1);
  const auto a = submit(submission_of({{5, 6, 7}}));
  std::this_thread::sleep_for(20ms);  // time to plan a alone
  const auto b = submit(submission_of({{5, 6, 8}}));
  door_.open();
  EXPECT_TRUE(completes(*first) && completes(*a) && completes(*b));
  EXPECT_THAT(batches(), ElementsAre(ElementsAre(1), ElementsAre(5, 6, 7, 8)));
}

TEST_F(SchedulerTest, AWindowGathersWhatComesToAnIdleWorker) {
  SchedulerLimits limits;
  limits.batch_window = 2s;
  start(limits);
  door_.open();
  const Clock::time_point begin = Clock::now();
  const auto a = submit(submission_of({{5, 6, 7}}));
  const auto b = submit(submission_of({{5, 6, 8}}));
  EXPECT_TRUE(completes(*a) && completes(*b));
  EXPECT_GE(Clock::now() - begin, 2s);
  EXPECT_THAT(batches(), ElementsAre(ElementsAre(5, 6, 7, 8)));
}

TEST_F(SchedulerTest, AClientThatIsGoneBeforeTheWindowEndsLeavesNothingBehind) {
  SchedulerLimits limits;
  limits.batch_window = 200ms;
  start(limits);
  door_.open();
  for (uint32_t i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(50ms);  // the worker is idle
    const auto gone = submit(submission_of({{1, i}}));
    std::this_thread::sleep_for(20ms);  // planned, and waiting for others
    gone->cancel();
    EXPECT_TRUE(completes(*submit(submission_of({{2, i}}))));
  }
  EXPECT_THAT(batches(), ElementsAre(ElementsAre(2, 0), ElementsAre(2, 1), ElementsAre(2, 2)));
}

TEST_F(SchedulerTest, AFullBatchDoesNotWaitForTheWindow) {
  SchedulerLimits limits = limits_of(2);
  limits.batch_window = 1h;
  start(limits);
  door_.open();
  const auto a = submit(submission_of({{1, 2}}));
  const auto b = submit(submission_of({{3, 4}}));
  EXPECT_TRUE(completes(*a));
}

TEST_F(SchedulerTest, TenantsShareABatchButNoRows) {
  start(SchedulerLimits{});
  const auto first = submit(submission_of({{1}}));
  door_.wait_until_arrived(1);
  const auto a = submit(submission_of({{5, 6}}, 1));
  const auto b = submit(submission_of({{5, 6}}, 2));
  door_.open();
  EXPECT_TRUE(completes(*first) && completes(*a) && completes(*b));
  EXPECT_THAT(batches().back(), ElementsAre(5, 6, 5, 6));
}

TEST_F(SchedulerTest, PredictsWhatABacklogTakesOnceSomethingHasRun) {
  start(SchedulerLimits{});
  EXPECT_EQ(scheduler_->predicted_seconds(0, 1000), 0);
  door_.open();
  EXPECT_TRUE(completes(*submit(submission_of({{1, 2, 3}}))));
  EXPECT_GT(scheduler_->predicted_seconds(0, 1000), 0);
  EXPECT_GT(scheduler_->predicted_seconds(0, 2000), scheduler_->predicted_seconds(0, 1000));
}

TEST_F(SchedulerTest, ModelsNeverShareABatch) {
  FakeForwardPass first_model;
  FakeForwardPass second_model;
  Scheduler scheduler({&first_model, &second_model}, SchedulerLimits{}, nullptr);
  std::vector<std::shared_ptr<PendingRequest>> requests;
  for (uint32_t i = 0; i < 20; ++i) {
    Submission submission = submission_of({{i}});
    submission.model = i % 2;
    requests.push_back(*scheduler.submit(std::move(submission)));
  }
  for (const auto& request : requests) {
    EXPECT_TRUE(completes(*request));
  }
  EXPECT_GE(first_model.runs(), 1U);
  EXPECT_GE(second_model.runs(), 1U);
}

TEST_F(SchedulerTest, PredictsByTheModelThatWillRun) {
  FakeForwardPass quick;
  FakeForwardPass slow;
  slow.before_run = [](const engine::BatchPlan&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  };
  Scheduler scheduler({&quick, &slow}, SchedulerLimits{}, nullptr);
  EXPECT_TRUE(completes(**scheduler.submit(submission_of({{1, 2, 3}}))));
  const double quick_alone = scheduler.predicted_seconds(0, 3000);
  EXPECT_GT(quick_alone, 0);
  EXPECT_EQ(scheduler.predicted_seconds(1, 3000), 0);  // the other's rate says nothing of it
  Submission submission = submission_of({{1, 2, 3}});
  submission.model = 1;
  EXPECT_TRUE(completes(**scheduler.submit(std::move(submission))));
  EXPECT_GE(scheduler.predicted_seconds(1, 3000), 50);  // 3 tokens take 50 ms or more
  EXPECT_EQ(scheduler.predicted_seconds(0, 3000), quick_alone);
}

TEST_F(SchedulerTest, RefusesWhatNeverFits) {
  SchedulerLimits limits;
  limits.sequence_tokens_max = 3;
  limits.queue_tickets_max = 2;
  start(limits);
  const auto too_long = scheduler_->submit(submission_of({{1, 2, 3, 4}}));
  ASSERT_FALSE(too_long.has_value());
  EXPECT_EQ(too_long.error().kind, FailureKind::kNeverFits);
  const auto too_many = scheduler_->submit(submission_of({{1}, {2}, {3}}));
  ASSERT_FALSE(too_many.has_value());
  EXPECT_EQ(too_many.error().kind, FailureKind::kNeverFits);
}

TEST_F(SchedulerTest, AFullQueueSaysWhenToComeBack) {
  SchedulerLimits limits = limits_of(1);
  limits.queue_tickets_max = 2;
  start(limits);
  const auto running = submit(submission_of({{1}}));
  door_.wait_until_arrived(1);
  const auto waiting = submit(submission_of({{3}, {4}}));
  const auto refused = scheduler_->submit(submission_of({{5}}));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, FailureKind::kQueueFull);
  EXPECT_GE(refused.error().retry_after, 1s);
  door_.open();
  EXPECT_TRUE(completes(*waiting));
  EXPECT_TRUE(completes(*submit(submission_of({{5}}))));
}

TEST_F(SchedulerTest, ACancelledRequestIsDroppedFromQueueAndPlan) {
  start(limits_of(1));
  const auto running = submit(submission_of({{1}}));
  door_.wait_until_arrived(1);
  const auto cancelled = submit(submission_of({{3}, {4}}));
  std::this_thread::sleep_for(20ms);  // time to plan it
  const auto after = submit(submission_of({{5}}));
  cancelled->cancel();
  EXPECT_EQ(scheduler_->queue_depth().tickets, 1U);  // its places are free at once
  EXPECT_EQ(failure_of(*cancelled), FailureKind::kCancelled);
  door_.open();
  EXPECT_TRUE(completes(*after));
  EXPECT_THAT(batches(), ElementsAre(ElementsAre(1), ElementsAre(5)));
}

TEST_F(SchedulerTest, APassThatNobodyWantsAnyMoreIsAbandoned) {
  start(SchedulerLimits{});
  const auto running = submit(submission_of({{1}}));
  door_.wait_until_arrived(1);
  running->cancel();
  EXPECT_EQ(failure_of(*running), FailureKind::kCancelled);
  door_.open();
  EXPECT_TRUE(completes(*submit(submission_of({{2}}))));
  EXPECT_EQ(model_.abandoned(), 1U);
  EXPECT_EQ(model_.runs(), 1U);
}

TEST_F(SchedulerTest, LettingGoOfARequestFreesItsPlaces) {
  start(limits_of(1));
  const auto running = submit(submission_of({{1}}));
  door_.wait_until_arrived(1);
  submit(submission_of({{3}, {4}}));  // the handle is dropped here
  EXPECT_EQ(scheduler_->queue_depth().tickets, 0U);
  door_.open();
  EXPECT_TRUE(completes(*running));
}

TEST_F(SchedulerTest, AWaiterIsAnsweredAtItsDeadlineThoughTheWorkerIsBusy) {
  start(limits_of(1));
  const auto running = submit(submission_of({{1}}));
  door_.wait_until_arrived(1);
  const auto planned = submit(submission_of({{2}}));
  Submission urgent = submission_of({{3}});
  urgent.deadline = Clock::now() + 30ms;
  const auto request = submit(urgent);
  EXPECT_EQ(failure_of(*request), FailureKind::kDeadline);
  EXPECT_EQ(scheduler_->queue_depth().tickets, 1U);
  door_.open();
  EXPECT_TRUE(completes(*planned));
  EXPECT_THAT(batches(), ElementsAre(ElementsAre(1), ElementsAre(2)));
}

TEST_F(SchedulerTest, ARequestWhoseDeadlineHasPassedIsNeverPlannedThoughNobodyWaits) {
  start(limits_of(1));
  const auto running = submit(submission_of({{1}}));
  door_.wait_until_arrived(1);
  const auto planned = submit(submission_of({{2}}));
  Submission late = submission_of({{3}});
  late.deadline = Clock::now() - 1ms;
  const auto expired = submit(late);
  const auto after = submit(submission_of({{4}}));
  door_.open();
  EXPECT_TRUE(completes(*after));
  EXPECT_EQ(failure_of(*expired), FailureKind::kDeadline);
  EXPECT_THAT(batches(), ElementsAre(ElementsAre(1), ElementsAre(2), ElementsAre(4)));
}

TEST_F(SchedulerTest, AFailingPassFailsItsRequestAndThePipelineLivesOn) {
  FakeForwardPass model;
  model.before_run = [](const engine::BatchPlan& plan) {
    if (plan.token_ids[0] == 666) {
      throw std::runtime_error("not finite");
    }
  };
  Scheduler scheduler({&model}, SchedulerLimits{}, nullptr);
  const auto bad = *scheduler.submit(submission_of({{666}}));
  EXPECT_EQ(failure_of(*bad), FailureKind::kCompute);
  const auto good = *scheduler.submit(submission_of({{1}}));
  EXPECT_TRUE(completes(*good));
}

TEST_F(SchedulerTest, DrainFinishesWhatWasAcceptedAndAdmitsNothingElse) {
  start(limits_of(1));
  const auto request = submit(submission_of({{1}, {2}, {3}, {4}}));
  door_.wait_until_arrived(1);
  auto drain = std::async(std::launch::async, [&] { return scheduler_->drain(kLong); });
  Result<std::shared_ptr<PendingRequest>> late = scheduler_->submit(submission_of({{9}}));
  while (late.has_value()) {  // until the drain has begun
    late = scheduler_->submit(submission_of({{9}}));
  }
  EXPECT_EQ(late.error().kind, FailureKind::kShuttingDown);
  EXPECT_EQ(drain.wait_for(20ms), std::future_status::timeout);
  door_.open();
  EXPECT_EQ(drain.get().abandoned_requests, 0U);
  EXPECT_TRUE(completes(*request));
  EXPECT_EQ(scheduler_->queue_depth().tickets, 0U);
}

TEST_F(SchedulerTest, DrainOfAnIdleSchedulerReturnsAtOnce) {
  start(SchedulerLimits{});
  const Clock::time_point begin = Clock::now();
  EXPECT_EQ(scheduler_->drain(1h).abandoned_requests, 0U);
  EXPECT_LT(Clock::now() - begin, kLong);
}

TEST_F(SchedulerTest, DrainAbandonsWhatIsNotDoneInTimeAndCountsIt) {
  start(limits_of(1));
  const auto running = submit(submission_of({{1}}));
  door_.wait_until_arrived(1);
  const auto planned = submit(submission_of({{2}}));
  const auto waiting = submit(submission_of({{3}, {4}}));
  const auto cancelled = submit(submission_of({{5}}));
  cancelled->cancel();
  EXPECT_EQ(scheduler_->drain(20ms).abandoned_requests, 3U);
  for (const auto& request : {running, planned, waiting}) {
    EXPECT_EQ(failure_of(*request), FailureKind::kShuttingDown);
  }
  EXPECT_EQ(failure_of(*cancelled), FailureKind::kCancelled);
  EXPECT_EQ(scheduler_->queue_depth().tickets, 0U);
  door_.open();
}

TEST_F(SchedulerTest, DestroyingItAnswersWhatIsLeftAndRequestsMayOutliveIt) {
  start(limits_of(1));
  const auto running = submit(submission_of({{1}}));
  door_.wait_until_arrived(1);
  const auto waiting = submit(submission_of({{2}, {3}, {4}}));
  auto destroyed = std::async(std::launch::async, [&] { scheduler_.reset(); });
  EXPECT_EQ(failure_of(*waiting), FailureKind::kShuttingDown);
  EXPECT_EQ(failure_of(*running), FailureKind::kShuttingDown);
  door_.open();
  destroyed.get();
  EXPECT_EQ(door_.arrived(), 1U);  // what was only planned is not run any more
  waiting->cancel();
}

TEST_F(SchedulerTest, MemoryOfARequestIsFreedWhenBothSidesLetGo) {
  door_.open();
  start(SchedulerLimits{});
  auto request = submit(submission_of({{1}}));
  const std::weak_ptr<PendingRequest> watch = request;
  EXPECT_TRUE(completes(*request));
  request.reset();
  EXPECT_TRUE(watch.expired());
}

TEST(SchedulerConfiguration, RefusesWhatCannotWork) {
  FakeForwardPass model;
  EXPECT_THROW(Scheduler({}, SchedulerLimits{}, nullptr), std::invalid_argument);
  EXPECT_THROW(Scheduler({nullptr}, SchedulerLimits{}, nullptr), std::invalid_argument);
  EXPECT_THROW(Scheduler({&model}, limits_of(0), nullptr), std::invalid_argument);
  EXPECT_THROW(Scheduler({&model}, limits_of(SIZE_MAX), nullptr), std::invalid_argument);
  EXPECT_THROW(Scheduler({ModelPasses(&model, &model)}, SchedulerLimits{}, nullptr),
               std::invalid_argument);
  SchedulerLimits limits;
  limits.interludes.length_ratio = 0;
  EXPECT_THROW(Scheduler({&model}, limits, nullptr), std::invalid_argument);
  limits = SchedulerLimits{};
  limits.batch_seconds_max = 0;
  EXPECT_THROW(Scheduler({&model}, limits, nullptr), std::invalid_argument);
  limits = SchedulerLimits{};
  limits.interludes.share_max = 1.5;
  EXPECT_THROW(Scheduler({&model}, limits, nullptr), std::invalid_argument);
}

using SchedulerDeathTest = SchedulerTest;

TEST_F(SchedulerDeathTest, BrokenContractsAbortWithTheValues) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  start(SchedulerLimits{});
  Submission no_model = submission_of({{1}});
  no_model.model = 7;
  EXPECT_DEATH((void)scheduler_->submit(no_model), "does not exist .value 7, limit 1");
  EXPECT_DEATH((void)scheduler_->submit(Submission{}), "an empty submission");
  EXPECT_DEATH((void)scheduler_->submit(submission_of({{1}, {}})), "without tokens .value 1");
}

}  // namespace
}  // namespace espalier::scheduler
