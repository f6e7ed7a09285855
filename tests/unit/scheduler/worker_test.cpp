#include "scheduler/worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <new>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "tests/unit/scheduler/request_fixture.h"

namespace espalier::scheduler {
namespace {

using ::testing::ElementsAre;
using testing::expected_states;
using testing::FakeForwardPass;
using ::testing::HasSubstr;
using testing::submission_of;

struct Reports final : SchedulerObserver {
  std::vector<BatchReport> reports;
  void on_batch(const BatchReport& report) override { reports.push_back(report); }
};

constexpr uint32_t kPoison = 666;

void refuse_poison(const engine::BatchPlan& plan) {
  if (std::count(plan.token_ids.begin(), plan.token_ids.end(), kPoison) > 0) {
    throw std::runtime_error("not finite");
  }
}

class WorkerTest : public ::testing::Test {
 protected:
  WorkerTest() { costs_.emplace_back(PassCosts{}); }

  /// One request a sequence.
  std::vector<std::shared_ptr<RequestState>> run(std::vector<Sequence> sequences) {
    std::vector<std::shared_ptr<RequestState>> requests;
    Batch batch;
    for (Sequence& sequence : sequences) {
      Submission submission;
      submission.sequences.push_back(std::move(sequence));
      requests.push_back(std::make_shared<RequestState>(
          std::move(submission), std::weak_ptr<TicketQueue>{}, Clock::now()));
      batch.choice.tickets.push_back({requests.back(), 0});
    }
    run(batch);
    return requests;
  }

  void run(Batch& batch) {
    Planner(limits_.dedup, costs_).plan_tickets(batch);
    AdmissionControl admission(limits_);
    Worker worker({&model_}, limits_, costs_, admission, &observer_);
    worker.run(batch, nullptr, [this] { ++nearly_done_; });
  }

  static Sequence last_of(std::vector<uint32_t> ids) { return {std::move(ids), WantedRows::kLast}; }
  static Sequence all_of(std::vector<uint32_t> ids) { return {std::move(ids), WantedRows::kAll}; }

  SchedulerLimits limits_;
  FakeForwardPass model_;
  Reports observer_;
  CostModels costs_;
  size_t nearly_done_ = 0;
};

TEST_F(WorkerTest, GivesEverySequenceTheStatesOfItsOwnPath) {
  const std::vector<Sequence> sequences = {last_of({1, 2, 3}), all_of({1, 2, 4, 5}),
                                           last_of({1, 2}),    all_of({7}),
                                           last_of({1, 2, 3}), all_of({1, 2})};
  for (const auto dedup :
       {engine::DedupMode::kTrie, engine::DedupMode::kRadixMlp, engine::DedupMode::kOff}) {
    limits_.dedup = dedup;
    const auto requests = run(sequences);
    for (size_t i = 0; i < sequences.size(); ++i) {
      const Result<Completed> result = requests[i]->take();
      ASSERT_TRUE(result.has_value());
      EXPECT_EQ(result->sequences[0], expected_states(sequences[i])) << "sequence " << i;
    }
  }
}

TEST_F(WorkerTest, ReportsABatch) {
  run({last_of({1, 2, 3}), last_of({1, 2, 4})});
  ASSERT_EQ(observer_.reports.size(), 1U);
  const BatchReport& report = observer_.reports[0];
  EXPECT_EQ(report.model, 0U);
  EXPECT_EQ(report.sequences, 2U);
  EXPECT_EQ(report.full_rows, 6U);
  EXPECT_EQ(report.compact_rows, 4U);
  EXPECT_FALSE(report.failed);
}

TEST_F(WorkerTest, EachRowIsOnTheAccountOfTheFirstRequestThatHoldsIt) {
  const std::vector<Sequence> sequences = {last_of({1, 2, 3}), all_of({1, 2, 4, 5}),
                                           all_of({1, 2, 3}), last_of({1, 2}), last_of({7})};
  const auto new_rows = [&](engine::DedupMode dedup) {
    limits_.dedup = dedup;
    std::vector<size_t> result;
    for (const auto& request : run(sequences)) result.push_back(request->take()->stats.new_rows);
    EXPECT_EQ(std::accumulate(result.begin(), result.end(), size_t{0}),
              observer_.reports.back().compact_rows);
    return result;
  };
  EXPECT_THAT(new_rows(engine::DedupMode::kTrie), ElementsAre(3, 2, 0, 0, 1));
  EXPECT_THAT(new_rows(engine::DedupMode::kRadixMlp), ElementsAre(3, 2, 0, 0, 1));
  EXPECT_THAT(new_rows(engine::DedupMode::kOff), ElementsAre(3, 4, 3, 2, 1));
}

TEST_F(WorkerTest, NobodyPaysForAPassThatANeighbourMadeFail) {
  model_.before_run = refuse_poison;
  const auto requests =
      run({last_of({1, 2, kPoison}), last_of({1, 2, 3}), last_of({1, 2, 4}), last_of({5, 6})});
  EXPECT_FALSE(requests[0]->take().has_value());
  // The whole batch fails, then its first half and of that the first; the others run alone.
  EXPECT_EQ(requests[1]->take()->stats.new_rows, 3U);
  EXPECT_EQ(requests[2]->take()->stats.new_rows, 3U);
  EXPECT_EQ(requests[3]->take()->stats.new_rows, 2U);
  size_t rows = 0;
  for (const BatchReport& report : observer_.reports) {
    rows += report.failed ? 0 : report.compact_rows;
  }
  EXPECT_EQ(rows, 8U);
}

TEST_F(WorkerTest, SaysThatAPassNearsItsEnd) {
  model_.steps = 10;
  model_.in_step = [](size_t) { std::this_thread::sleep_for(std::chrono::milliseconds(30)); };
  run({last_of({1, 2, 3})});
  EXPECT_GE(nearly_done_, 1U);
  EXPECT_LE(nearly_done_, 5U);  // not from the start
}

TEST_F(WorkerTest, LearnsWhatPassesCost) {
  model_.in_step = [](size_t) { std::this_thread::sleep_for(std::chrono::milliseconds(50)); };
  for (size_t i = 0; i < CostModel::kObservationsMin; ++i) run({last_of({1, 2, 3})});
  EXPECT_NEAR(costs_[0].coefficients().seconds({3, 6, 1}), 0.05, 0.04);
}

TEST_F(WorkerTest, DoesNotRunABatchThatNobodyWants) {
  const auto request = std::make_shared<RequestState>(submission_of({{1}}),
                                                      std::weak_ptr<TicketQueue>{}, Clock::now());
  request->fail(shutting_down_failure());
  Batch batch;
  batch.choice.tickets.push_back({request, 0});
  run(batch);
  EXPECT_EQ(model_.runs(), 0U);
  EXPECT_TRUE(observer_.reports.empty());
}

TEST_F(WorkerTest, AFailingPassFailsTheOnlyTicketWithTheReason) {
  model_.before_run = refuse_poison;
  const auto requests = run({last_of({kPoison})});
  const Result<Completed> result = requests[0]->take();
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().kind, FailureKind::kCompute);
  EXPECT_THAT(result.error().message, HasSubstr("not finite"));
  ASSERT_EQ(observer_.reports.size(), 1U);
  EXPECT_TRUE(observer_.reports[0].failed);
}

TEST_F(WorkerTest, OnlyTheGuiltySequenceOfABatchFails) {
  model_.before_run = refuse_poison;
  for (size_t guilty = 0; guilty < 9; ++guilty) {
    std::vector<Sequence> sequences;
    for (uint32_t i = 0; i < 9; ++i) {
      sequences.push_back(last_of({1, 2, i == guilty ? kPoison : i}));
    }
    const auto requests = run(sequences);
    for (size_t i = 0; i < sequences.size(); ++i) {
      const Result<Completed> result = requests[i]->take();
      ASSERT_EQ(result.has_value(), i != guilty) << i << " of " << guilty;
      if (result) {
        EXPECT_EQ(result->sequences[0], expected_states(sequences[i]));
      }
    }
  }
}

TEST_F(WorkerTest, FindsOneGuiltySequenceAmongThousands) {
  model_.before_run = refuse_poison;
  std::vector<Sequence> sequences;
  for (uint32_t i = 0; i < 4096; ++i) {
    sequences.push_back(last_of({i == 1234 ? kPoison : 1000 + i}));
  }
  const auto requests = run(sequences);
  for (size_t i = 0; i < sequences.size(); ++i) {
    ASSERT_EQ(requests[i]->take().has_value(), i != 1234) << i;
  }
  EXPECT_EQ(observer_.reports.size(), 1 + 2 * 12U);  // two halves a level
}

TEST_F(WorkerTest, ABatchTooLargeForMemoryIsRunInHalves) {
  model_.before_run = [](const engine::BatchPlan& plan) {
    if (plan.compact_rows() > 3) {
      throw std::bad_alloc();
    }
  };
  const auto requests = run({last_of({1, 2}), last_of({3}), last_of({4, 5}), last_of({6})});
  for (const auto& request : requests) {
    EXPECT_TRUE(request->take().has_value());
  }
}

TEST_F(WorkerTest, AModelThatAlwaysFailsCostsABoundedNumberOfPasses) {
  size_t passes = 0;
  model_.before_run = [&](const engine::BatchPlan&) {
    ++passes;
    throw std::runtime_error("broken");
  };
  std::vector<Sequence> sequences;
  for (uint32_t i = 0; i < 1000; ++i) {
    sequences.push_back(last_of({i}));
  }
  const auto requests = run(sequences);
  for (const auto& request : requests) {
    ASSERT_TRUE(request->ended());
    EXPECT_EQ(request->take().error().kind, FailureKind::kCompute);
  }
  EXPECT_LE(passes, 1 + BatchRunner::kRetryPassesMax);
}

TEST_F(WorkerTest, RetriesLeaveOutWhatNobodyWantsAnyMore) {
  const auto gone = std::make_shared<RequestState>(submission_of({{1, 1, 1}}),
                                                   std::weak_ptr<TicketQueue>{}, Clock::now());
  const auto wanted = std::make_shared<RequestState>(submission_of({{2}}),
                                                     std::weak_ptr<TicketQueue>{}, Clock::now());
  std::vector<size_t> rows;
  model_.before_run = [&](const engine::BatchPlan& plan) {
    rows.push_back(plan.compact_rows());
    if (rows.size() == 1) {
      gone->fail({FailureKind::kCancelled, "", {}});
      throw std::runtime_error("once");
    }
  };
  Batch batch;
  batch.choice.tickets = {{gone, 0}, {wanted, 0}};
  run(batch);
  EXPECT_TRUE(wanted->take().has_value());
  EXPECT_EQ(rows, (std::vector<size_t>{4, 1}));
}

TEST_F(WorkerTest, AResultOfAnotherShapeIsAFailureNotAnOverrun) {
  struct Misshapen final : engine::ForwardPass {
    size_t hidden_size() const override { return 4; }
    engine::ConstMatView run(const engine::BatchPlan&, const engine::PassProgress&) override {
      return {};
    }
  } misshapen;
  const auto request = std::make_shared<RequestState>(submission_of({{1}}),
                                                      std::weak_ptr<TicketQueue>{}, Clock::now());
  Batch batch;
  batch.choice.tickets.push_back({request, 0});
  CostModels costs;
  costs.emplace_back(PassCosts{});
  Planner(limits_.dedup, costs).plan_tickets(batch);
  AdmissionControl admission(limits_);
  Worker worker({&misshapen}, limits_, costs, admission, nullptr);
  worker.run(batch, nullptr, {});
  EXPECT_EQ(request->take().error().kind, FailureKind::kCompute);
}

TEST_F(WorkerTest, AThrownThingThatIsNoExceptionFailsTheTicketToo) {
  model_.before_run = [](const engine::BatchPlan&) { throw 42; };
  const auto requests = run({last_of({1})});
  EXPECT_EQ(requests[0]->take().error().kind, FailureKind::kCompute);
}

}  // namespace
}  // namespace espalier::scheduler
