// Many threads submit, cancel, let go, expire and wait at random while passes fail now and then,
// short inputs overtake in every pause and a drain comes. Each request must end exactly once, with
// its own result. Meant for TSan and ASan.

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>

#include "scheduler/scheduler.h"
#include "tests/unit/scheduler/fake_forward_pass.h"

namespace espalier::scheduler {
namespace {

using testing::expected_states;
using testing::FakeForwardPass;
using namespace std::chrono_literals;

constexpr size_t kThreads = 8;
constexpr size_t kRequestsPerThread = 300;
constexpr uint32_t kPoison = 666;

struct Counts {
  std::atomic<size_t> submitted{0}, refused_full{0}, refused_closed{0}, completed{0}, let_go{0};
  std::atomic<size_t> deadline{0}, cancelled{0}, compute{0}, shutting_down{0};
};

struct Rows final : SchedulerObserver {
  std::atomic<size_t> full{0}, compact{0}, interludes{0};
  void on_batch(const BatchReport& report) override {
    interludes += report.interlude ? 1 : 0;
    full += report.full_rows;
    compact += report.compact_rows;
  }
};

/// A number in [0, end).
uint32_t below(std::mt19937& random, uint32_t end) { return static_cast<uint32_t>(random() % end); }

Submission random_submission(std::mt19937& random) {
  Submission submission;
  submission.model = below(random, 2);
  submission.tenant = below(random, 3);
  const size_t sequences = 1 + below(random, 6);
  for (size_t s = 0; s < sequences; ++s) {
    Sequence sequence;
    const size_t tokens = 1 + below(random, 12);
    for (size_t i = 0; i < tokens; ++i) {
      sequence.token_ids.push_back(i < 4 ? 1 : below(random, 3));  // mostly shared
    }
    sequence.wanted = below(random, 4) == 0 ? WantedRows::kAll : WantedRows::kLast;
    submission.sequences.push_back(std::move(sequence));
  }
  if (below(random, 50) == 0) {
    submission.sequences.back().token_ids.back() = kPoison;
  }
  if (below(random, 4) == 0) {
    submission.deadline = Clock::now() + std::chrono::microseconds(below(random, 3000));
  }
  return submission;
}

void count_failure(const Failure& failure, Counts& counts) {
  switch (failure.kind) {
    case FailureKind::kDeadline:
      ++counts.deadline;
      break;
    case FailureKind::kCancelled:
      ++counts.cancelled;
      break;
    case FailureKind::kCompute:
      ++counts.compute;
      break;
    case FailureKind::kShuttingDown:
      ++counts.shutting_down;
      break;
    default:
      ADD_FAILURE() << "an accepted request was answered as if it had not been";
  }
}

void check_outcome(const Submission& submission, const Result<Completed>& outcome, Counts& counts) {
  if (!outcome) {
    count_failure(outcome.error(), counts);
    return;
  }
  ++counts.completed;
  ASSERT_EQ(outcome->sequences.size(), submission.sequences.size());
  for (size_t i = 0; i < submission.sequences.size(); ++i) {
    ASSERT_EQ(outcome->sequences[i], expected_states(submission.sequences[i]));
    ASSERT_NE(submission.sequences[i].token_ids.back(), kPoison);
  }
}

void run_client(Scheduler& scheduler, unsigned seed, Counts& counts) {
  std::mt19937 random(seed);
  for (size_t i = 0; i < kRequestsPerThread; ++i) {
    const Submission submission = random_submission(random);
    auto admitted = scheduler.submit(submission);
    if (!admitted) {
      const bool full = admitted.error().kind == FailureKind::kQueueFull;
      ++(full ? counts.refused_full : counts.refused_closed);
      ASSERT_TRUE(full || admitted.error().kind == FailureKind::kShuttingDown);
      continue;
    }
    ++counts.submitted;
    std::shared_ptr<PendingRequest> request = std::move(*admitted);
    const unsigned fate = below(random, 10);
    if (fate == 0) {
      request.reset();
      ++counts.let_go;
      continue;
    }
    std::thread other;
    if (fate == 1) {
      other = std::thread([request] { request->cancel(); });
    } else if (fate == 2) {
      request->cancel();
    }
    while (!request->wait_for(2ms)) {
    }
    check_outcome(submission, request->take(), counts);
    if (other.joinable()) {
      other.join();
    }
  }
}

/// Without `until_drain` the drain comes when the clients are done.
void run_stress(engine::DedupMode dedup, std::optional<std::chrono::milliseconds> until_drain,
                std::chrono::milliseconds drain_timeout) {
  FakeForwardPass models[4];
  for (FakeForwardPass& model : models) {
    model.steps = 3;
    model.before_run = [](const engine::BatchPlan& plan) {
      for (const uint32_t token : plan.token_ids) {
        if (token == kPoison) {
          throw std::runtime_error("not finite");
        }
      }
      std::this_thread::sleep_for(100us);
    };
  }
  SchedulerLimits limits;
  limits.dedup = dedup;
  limits.batch_rows_max = 24;
  limits.batch_full_rows_max = 60;
  limits.queue_tickets_max = 20;  // fills now and then
  limits.interludes.after_seconds = 0;
  limits.interludes.left_seconds = 0;
  limits.interludes.length_ratio = 2;
  Counts counts;
  Rows rows;
  {
    Scheduler scheduler({ModelPasses(&models[0], &models[1]), ModelPasses(&models[2], &models[3])},
                        limits, &rows);
    std::vector<std::thread> clients;
    for (unsigned t = 0; t < kThreads; ++t) {
      clients.emplace_back([&, t] { run_client(scheduler, t + 1, counts); });
    }
    if (until_drain) {
      std::this_thread::sleep_for(*until_drain);
      scheduler.drain(drain_timeout);
    }
    for (std::thread& client : clients) {
      client.join();
    }
    if (!until_drain) {
      EXPECT_EQ(scheduler.drain(drain_timeout).abandoned_requests, 0U);
    }
    EXPECT_EQ(scheduler.queue_depth().tickets, 0U);
    EXPECT_EQ(scheduler.queue_depth().tokens, 0U);
  }
  EXPECT_EQ(counts.submitted, counts.completed + counts.let_go + counts.deadline +
                                  counts.cancelled + counts.compute + counts.shutting_down);
  EXPECT_EQ(counts.submitted + counts.refused_full + counts.refused_closed,
            kThreads * kRequestsPerThread);
  EXPECT_GT(counts.completed, 0U);
  EXPECT_LE(rows.compact, rows.full);
  if (!until_drain) {
    EXPECT_GT(rows.interludes, 0U);
  }
}

/// Requests that nobody gives up, `threads` at a time; the rows that they are told they cost.
size_t rows_told(Scheduler& scheduler, unsigned threads, bool shared) {
  std::atomic<size_t> rows{0};
  std::vector<std::thread> clients;
  for (unsigned t = 0; t < threads; ++t) {
    clients.emplace_back([&, t] {
      std::mt19937 random(t + 1);
      for (size_t i = 0; i < kRequestsPerThread; ++i) {
        Submission submission = random_submission(random);
        submission.deadline = Clock::time_point::max();
        Sequence& last = submission.sequences.back();
        if (last.token_ids.back() == kPoison) last.token_ids.back() = 1;
        const auto request = scheduler.submit(std::move(submission));
        ASSERT_TRUE(request.has_value());
        ASSERT_TRUE((*request)->wait_for(60s));
        const Result<Completed> outcome = (*request)->take();
        ASSERT_TRUE(outcome.has_value());
        ASSERT_LE(outcome->stats.new_rows, outcome->stats.tokens);
        if (!shared) {
          ASSERT_EQ(outcome->stats.new_rows, outcome->stats.tokens);
        }
        rows += outcome->stats.new_rows;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  return rows;
}

TEST(SchedulerStress, EveryRowIsOnTheAccountOfOneRequestInterludesIncluded) {
  for (const auto dedup :
       {engine::DedupMode::kTrie, engine::DedupMode::kRadixMlp, engine::DedupMode::kOff}) {
    FakeForwardPass models[4];
    for (FakeForwardPass& model : models) {
      model.steps = 3;
      model.in_step = [](size_t) { std::this_thread::sleep_for(50us); };
    }
    SchedulerLimits limits;
    limits.dedup = dedup;
    limits.batch_rows_max = 24;
    limits.batch_full_rows_max = 60;
    limits.interludes.after_seconds = 0;
    limits.interludes.left_seconds = 0;
    limits.interludes.length_ratio = 2;
    Rows rows;
    Scheduler scheduler({ModelPasses(&models[0], &models[1]), ModelPasses(&models[2], &models[3])},
                        limits, &rows);
    const bool shared = dedup != engine::DedupMode::kOff;
    const size_t told = rows_told(scheduler, kThreads, shared);
    EXPECT_EQ(told, rows.compact);
    EXPECT_EQ(rows.compact < rows.full, shared);
    EXPECT_GT(rows.interludes, 0U);
  }
}

TEST(SchedulerStress, EveryRequestEndsExactlyOnceAcrossADrain) {
  for (const auto dedup :
       {engine::DedupMode::kTrie, engine::DedupMode::kRadixMlp, engine::DedupMode::kOff}) {
    run_stress(dedup, 100ms, 10s);
  }
}

TEST(SchedulerStress, EveryRequestEndsExactlyOnceWhenADrainHasNoTime) {
  for (int i = 0; i < 5; ++i) {
    run_stress(engine::DedupMode::kTrie, 20ms, 0ms);
  }
}

TEST(SchedulerStress, EveryRequestEndsExactlyOnceWithoutADrainInTheWay) {
  run_stress(engine::DedupMode::kTrie, std::nullopt, 10s);
}

}  // namespace
}  // namespace espalier::scheduler
