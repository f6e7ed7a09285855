// Short inputs in the pauses of a pass over a long one, from end to end: real threads, fake passes
// whose steps wait at doors.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "scheduler/scheduler.h"
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
constexpr uint32_t kPoison = 666;

struct Reports final : SchedulerObserver {
  std::mutex mutex;
  std::vector<BatchReport> reports;
  void on_batch(const BatchReport& report) override {
    const std::lock_guard lock(mutex);
    reports.push_back(report);
  }
};

/// `tokens` ids from `first` on.
std::vector<uint32_t> text(uint32_t first, size_t tokens) {
  std::vector<uint32_t> ids(tokens);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

/// A model whose main pass has kSteps steps that wait at a door each. Every pause may be used from
/// the first on, and an input is short against one that is eight times as long.
class InterludeTest : public ::testing::Test {
 protected:
  static constexpr size_t kSteps = 4;
  static constexpr size_t kLongTokens = 80;

  InterludeTest() {
    limits_.batch_rows_max = 64;  // a long input runs alone
    limits_.interludes.after_seconds = 0;
    limits_.interludes.left_seconds = 0;
    limits_.interludes.share_max = 0.999;
    main_.steps = kSteps;
    main_.before_run = [this](const engine::BatchPlan& plan) { record(plan); };
    main_.in_step = [this](size_t) { door_.pass(); };
    interlude_.before_run = [this](const engine::BatchPlan& plan) {
      record(plan);
      if (std::count(plan.token_ids.begin(), plan.token_ids.end(), kPoison) > 0) {
        throw std::runtime_error("not finite");
      }
    };
  }

  void start(std::vector<ModelPasses> models) {
    scheduler_ = std::make_unique<Scheduler>(models, limits_, &reports_);
  }
  void start() { start({ModelPasses(&main_, &interlude_)}); }

  void record(const engine::BatchPlan& plan) {
    const std::lock_guard lock(mutex_);
    order_.push_back(plan.token_ids.front());
  }
  /// The first token of each pass, in the order in which they began.
  std::vector<uint32_t> order() {
    const std::lock_guard lock(mutex_);
    return order_;
  }

  std::shared_ptr<PendingRequest> submit(Submission submission) {
    auto result = scheduler_->submit(std::move(submission));
    EXPECT_TRUE(result.has_value());
    return result ? *result : nullptr;
  }
  std::shared_ptr<PendingRequest> submit_text(std::vector<uint32_t> ids) {
    return submit(submission_of({std::move(ids)}));
  }

  /// Submits a long input and waits until its first step has begun.
  std::shared_ptr<PendingRequest> submit_running(uint32_t first) {
    const size_t arrived = door_.arrived();
    auto request = submit_text(text(first, kLongTokens));
    door_.wait_until_arrived(arrived + 1);
    return request;
  }

  static bool ended(PendingRequest& request) { return request.wait_for(0ms); }
  static bool completes(PendingRequest& request) {
    return request.wait_for(kLong) && request.take().has_value();
  }

  SchedulerLimits limits_;
  FakeForwardPass main_;
  FakeForwardPass interlude_;
  Door door_;
  Reports reports_;
  std::mutex mutex_;
  std::vector<uint32_t> order_;
  std::unique_ptr<Scheduler> scheduler_;  // destroyed first
};

TEST_F(InterludeTest, AShortInputIsAnsweredWhileALongOneRuns) {
  start();
  const auto long_one = submit_running(100);
  const Submission submission = submission_of({{1, 2, 3}});
  const auto short_one = submit(submission);
  door_.let_in(1);
  ASSERT_TRUE(short_one->wait_for(kLong));
  door_.wait_until_arrived(2);
  EXPECT_FALSE(ended(*long_one));
  const Result<Completed> result = short_one->take();
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->sequences[0], expected_states(submission.sequences[0]));
  door_.open();
  ASSERT_TRUE(long_one->wait_for(kLong));
  const Result<Completed> long_result = long_one->take();
  ASSERT_TRUE(long_result.has_value());
  EXPECT_EQ(long_result->sequences[0], expected_states({text(100, kLongTokens)}));
}

TEST_F(InterludeTest, OneThatComesLaterFindsTheNextPause) {
  start();
  const auto long_one = submit_running(100);
  const auto first = submit_text({1});
  door_.let_in(1);
  EXPECT_TRUE(completes(*first));
  door_.wait_until_arrived(2);
  const auto second = submit_text({2});
  door_.let_in(1);
  EXPECT_TRUE(completes(*second));
  door_.wait_until_arrived(3);
  EXPECT_FALSE(ended(*long_one));
  door_.open();
  EXPECT_TRUE(completes(*long_one));
}

TEST_F(InterludeTest, OnlyInputsEightTimesAsShortOvertake) {
  start();
  const auto long_one = submit_running(100);
  const auto too_long = submit_text(text(200, kLongTokens / 8 + 1));
  const auto short_one = submit_text(text(300, kLongTokens / 8));
  door_.let_in(kSteps);
  EXPECT_TRUE(completes(*long_one) && completes(*short_one));
  door_.open();
  EXPECT_TRUE(completes(*too_long));
  EXPECT_THAT(order(), ElementsAre(100, 300, 200));
}

TEST_F(InterludeTest, ShortInputsGetOutOfABatchThatIsPlannedAlready) {
  start();
  const auto long_one = submit_running(100);
  const auto planned = submit_text(text(200, 40));
  const auto behind_it = submit_text({1});  // may be in the same batch
  const auto last = submit_text(text(300, kLongTokens));
  door_.let_in(1);
  EXPECT_TRUE(completes(*behind_it));
  EXPECT_FALSE(ended(*planned));
  door_.open();
  EXPECT_TRUE(completes(*long_one) && completes(*planned) && completes(*last));
  EXPECT_THAT(order(), ElementsAre(100, 1, 200, 300));
}

TEST_F(InterludeTest, ThoseWhoOvertakeKeepTheirOrder) {
  limits_.batch_rows_max = 8;
  start();
  const auto long_one = submit_running(100);
  const auto a = submit_text(text(10, 7));
  const auto b = submit_text(text(20, 7));
  const auto c = submit_text(text(30, 1));  // would fit next to a
  door_.let_in(1);
  EXPECT_TRUE(completes(*a) && completes(*b) && completes(*c));
  EXPECT_THAT(order(), ElementsAre(100, 10, 20));
  door_.open();
  EXPECT_TRUE(completes(*long_one));
}

TEST_F(InterludeTest, InterludesAreNotInterrupted) {
  std::atomic<int> at_once{0};
  std::atomic<int> at_once_max{0};
  limits_.batch_rows_max = 8;
  interlude_.steps = 3;
  interlude_.in_step = [&](size_t step) {
    if (step == 1) {
      at_once_max = std::max(at_once_max.load(), ++at_once);
    } else if (step == 3) {
      --at_once;
    }
  };
  start();
  const auto long_one = submit_running(100);
  const auto medium = submit_text(text(10, 8));
  const auto tiny = submit_text({1});  // eight times as short as `medium`
  door_.open();
  EXPECT_TRUE(completes(*long_one) && completes(*medium) && completes(*tiny));
  EXPECT_EQ(at_once_max, 1);
  EXPECT_EQ(interlude_.runs(), 2U);
}

TEST_F(InterludeTest, InterludesDoNotStarveThePass) {
  limits_.interludes.share_max = 1e-9;  // one interlude, and then years without
  limits_.batch_rows_max = 8;
  start();
  const auto long_one = submit_running(100);
  const auto first = submit_text(text(10, 8));
  const auto second = submit_text(text(20, 8));
  door_.let_in(kSteps);
  EXPECT_TRUE(completes(*first) && completes(*long_one));
  EXPECT_EQ(interlude_.runs(), 1U);
  door_.open();
  EXPECT_TRUE(completes(*second));
  EXPECT_THAT(order(), ElementsAre(100, 10, 20));
}

TEST_F(InterludeTest, APassThatIsSoonDoneIsNotInterrupted) {
  limits_.interludes.left_seconds = 3600;
  start();
  const auto long_one = submit_running(100);
  const auto short_one = submit_text({1});
  door_.open();
  EXPECT_TRUE(completes(*long_one) && completes(*short_one));
  EXPECT_EQ(interlude_.runs(), 0U);
  EXPECT_EQ(main_.runs(), 2U);
}

TEST_F(InterludeTest, NothingOvertakesWithoutAPassForIt) {
  start({&main_});
  const auto long_one = submit_running(100);
  const auto short_one = submit_text({1});
  door_.let_in(kSteps);
  EXPECT_TRUE(completes(*long_one));
  door_.open();
  EXPECT_TRUE(completes(*short_one));
  EXPECT_THAT(order(), ElementsAre(100, 1));
}

TEST_F(InterludeTest, AnInputForAnotherModelOvertakesToo) {
  FakeForwardPass other_main;
  FakeForwardPass silent_main;
  FakeForwardPass other_interlude;
  start({&main_, ModelPasses(&other_main, &other_interlude), &silent_main});
  const auto long_one = submit_running(100);
  Submission submission = submission_of({{1}});
  submission.model = 2;  // has no pass for interludes
  const auto waits = submit(submission);
  submission.model = 1;
  const auto overtakes = submit(submission);
  door_.let_in(1);
  EXPECT_TRUE(completes(*overtakes));
  door_.wait_until_arrived(2);
  EXPECT_FALSE(ended(*waits));
  EXPECT_EQ(other_interlude.runs(), 1U);
  door_.open();
  EXPECT_TRUE(completes(*long_one) && completes(*waits));
}

TEST_F(InterludeTest, AFailingInterludeFailsTheGuiltyAlone) {
  start();
  const auto long_one = submit_running(100);
  const auto good = submit_text({1});
  const auto bad = submit_text({kPoison});
  door_.let_in(1);
  EXPECT_TRUE(completes(*good));
  ASSERT_TRUE(bad->wait_for(kLong));
  EXPECT_EQ(bad->take().error().kind, FailureKind::kCompute);
  door_.wait_until_arrived(2);
  EXPECT_FALSE(ended(*long_one));
  EXPECT_EQ(main_.runs(), 0U);
  door_.open();
  EXPECT_TRUE(completes(*long_one));
}

TEST_F(InterludeTest, AFailingPassIsRetriedAroundItsInterludes) {
  limits_.batch_rows_max = 4 * kLongTokens;
  std::atomic<bool> failed{false};
  main_.in_step = [&](size_t step) {
    door_.pass();
    if (step == 2 && !failed.exchange(true)) {
      throw std::bad_alloc();
    }
  };
  start();
  const auto pair = submit(submission_of({text(100, kLongTokens), text(300, kLongTokens)}));
  door_.wait_until_arrived(1);
  const auto first = submit_text({1});
  door_.let_in(2);
  EXPECT_TRUE(completes(*first));
  door_.wait_until_arrived(3);  // the first half
  const auto good = submit_text({2});
  const auto bad = submit_text({kPoison});
  door_.let_in(1);
  EXPECT_TRUE(completes(*good));
  ASSERT_TRUE(bad->wait_for(kLong));
  EXPECT_FALSE(bad->take().has_value());
  door_.open();
  EXPECT_TRUE(completes(*pair));
}

TEST_F(InterludeTest, APassThatNobodyWantsAnyMoreStopsAtItsNextPause) {
  start();
  auto long_one = submit_running(100);
  door_.let_in(1);
  door_.wait_until_arrived(2);
  long_one.reset();
  const auto next = submit_text(text(200, kLongTokens));
  door_.let_in(1);
  door_.wait_until_arrived(3);
  EXPECT_THAT(order(), ElementsAre(100, 200));
  EXPECT_EQ(main_.abandoned(), 1U);
  {
    const std::lock_guard lock(reports_.mutex);
    ASSERT_EQ(reports_.reports.size(), 1U);
    EXPECT_TRUE(reports_.reports[0].abandoned);
    EXPECT_FALSE(reports_.reports[0].failed);
  }
  door_.open();
  EXPECT_TRUE(completes(*next));
}

TEST_F(InterludeTest, APassStopsWhenItsLastDeadlinePasses) {
  start();
  Submission submission = submission_of({text(100, kLongTokens)});
  submission.deadline = Clock::now() + 500ms;
  const auto late = submit(submission);
  door_.wait_until_arrived(1);
  ASSERT_TRUE(late->wait_for(kLong));
  EXPECT_EQ(late->take().error().kind, FailureKind::kDeadline);
  door_.let_in(1);
  EXPECT_TRUE(scheduler_->drain(kLong).abandoned_requests == 0);
  scheduler_.reset();
  EXPECT_EQ(main_.abandoned(), 1U);
  EXPECT_EQ(door_.arrived(), 1U);
}

TEST_F(InterludeTest, APassGoesOnAsLongAsOneOfItsRequestsIsWanted) {
  limits_.batch_rows_max = 4 * kLongTokens;
  start();
  const auto blocker = submit_running(500);
  auto let_go = submit_text(text(100, kLongTokens));
  const auto wanted = submit_text(text(300, kLongTokens));
  door_.let_in(kSteps);
  door_.wait_until_arrived(kSteps + 1);
  let_go.reset();
  door_.open();
  EXPECT_TRUE(completes(*blocker) && completes(*wanted));
  EXPECT_EQ(main_.abandoned(), 0U);
}

TEST_F(InterludeTest, DestroyingTheSchedulerWaitsForOnePauseOnly) {
  start();
  const auto long_one = submit_running(100);
  const auto short_one = submit_text({1});
  auto destroyed = std::async(std::launch::async, [&] { scheduler_.reset(); });
  ASSERT_TRUE(long_one->wait_for(kLong) && short_one->wait_for(kLong));
  door_.let_in(1);
  destroyed.get();
  EXPECT_EQ(long_one->take().error().kind, FailureKind::kShuttingDown);
  EXPECT_EQ(short_one->take().error().kind, FailureKind::kShuttingDown);
  EXPECT_EQ(main_.abandoned(), 1U);
  EXPECT_EQ(interlude_.runs(), 0U);
}

TEST_F(InterludeTest, ADrainLetsInterludesRun) {
  start();
  const auto long_one = submit_running(100);
  const auto short_one = submit_text({1});
  auto drain = std::async(std::launch::async, [&] { return scheduler_->drain(kLong); });
  door_.let_in(1);
  EXPECT_TRUE(completes(*short_one));
  door_.open();
  EXPECT_EQ(drain.get().abandoned_requests, 0U);
  EXPECT_TRUE(completes(*long_one));
}

TEST_F(InterludeTest, InterludesAreReportedAndNotCountedInThePassesTime) {
  interlude_.in_step = [](size_t) { std::this_thread::sleep_for(50ms); };
  start();
  const auto long_one = submit_running(100);
  const Clock::time_point begin = Clock::now();
  const auto short_one = submit_text({1});
  door_.let_in(1);
  EXPECT_TRUE(completes(*short_one));
  const std::chrono::duration<double> interlude = Clock::now() - begin;
  door_.open();
  EXPECT_TRUE(completes(*long_one));
  scheduler_.reset();
  const std::chrono::duration<double> all = Clock::now() - begin;
  ASSERT_EQ(reports_.reports.size(), 2U);
  EXPECT_TRUE(reports_.reports[0].interlude);
  EXPECT_EQ(reports_.reports[0].full_rows, 1U);
  EXPECT_GE(reports_.reports[0].compute_seconds, 0.05);
  EXPECT_LE(reports_.reports[0].compute_seconds, interlude.count());
  EXPECT_FALSE(reports_.reports[1].interlude);
  EXPECT_EQ(reports_.reports[1].full_rows, kLongTokens);
  // `all` leaves out what came before the short one was submitted, which is the test's own doing
  // and takes microseconds.
  EXPECT_LE(reports_.reports[1].compute_seconds, all.count() - 0.04);
}

}  // namespace
}  // namespace espalier::scheduler
