#include "server/service/tokenizer_threads.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <latch>
#include <new>
#include <numeric>

namespace espalier::server {
namespace {

using std::chrono::milliseconds;

std::optional<ApiError> nothing() { return std::nullopt; }

ApiError error_about(size_t index) {
  ApiError error;
  error.kind = ErrorKind::kInvalidRequest;
  error.param = std::to_string(index);
  return error;
}

TEST(TokenizerThreads, RunEveryTaskOnce) {
  TokenizerThreads threads(3);
  std::vector<int> runs(1000);
  EXPECT_FALSE(threads.run(
      runs.size(),
      [&](size_t i) {
        ++runs[i];
        return nothing();
      },
      nothing));
  EXPECT_THAT(runs, testing::Each(1));
  EXPECT_FALSE(threads.run(
      0, [](size_t i) { return error_about(i); }, nothing));
}

TEST(TokenizerThreads, RunSeveralTasksOfARequestAtOnce) {
  TokenizerThreads threads(2);
  std::latch both(2);
  EXPECT_FALSE(threads.run(
      2,
      [&](size_t) {
        both.arrive_and_wait();  // would never return on one thread
        return nothing();
      },
      nothing));
}

TEST(TokenizerThreads, ReportTheLowestFaultyTaskWhicheverIsDoneFirst) {
  TokenizerThreads threads(2);
  for (int repeat = 0; repeat < 50; ++repeat) {
    std::promise<void> higher_failed;
    std::atomic<size_t> highest = 0;
    const auto error = threads.run(
        1000,
        [&](size_t i) -> std::optional<ApiError> {
          if (i > highest) highest = i;
          if (i == 10) {
            higher_failed.get_future().wait();
            return error_about(i);
          }
          if (i == 11) {
            higher_failed.set_value();
            return error_about(i);
          }
          return std::nullopt;
        },
        nothing);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->param, "10");
    EXPECT_LT(highest, 1000U - 1);  // what comes behind the fault is not done
  }
}

TEST(TokenizerThreads, HandExceptionsToTheRequestAndLiveOn) {
  TokenizerThreads threads(2);
  const auto out_of_memory = [](size_t i) -> std::optional<ApiError> {
    if (i == 5) throw std::bad_alloc();
    return std::nullopt;
  };
  EXPECT_THROW(threads.run(100, out_of_memory, nothing), std::bad_alloc);
  EXPECT_FALSE(threads.run(
      3, [](size_t) { return nothing(); }, nothing));
}

TEST(TokenizerThreads, ServeRequestsInTurn) {
  TokenizerThreads threads(1);
  std::promise<void> first_runs, second_waits;
  std::atomic<size_t> done_of_many = 0;
  auto many = std::async(std::launch::async, [&] {
    return threads.run(
        1000,
        [&](size_t i) {
          if (i == 0) {
            first_runs.set_value();
            second_waits.get_future().wait();
          }
          ++done_of_many;
          std::this_thread::sleep_for(milliseconds(1));
          return nothing();
        },
        nothing);
  });
  first_runs.get_future().wait();
  auto one = std::async(std::launch::async, [&] {
    return threads.run(
        1, [](size_t) { return nothing(); }, nothing);
  });
  std::this_thread::sleep_for(milliseconds(20));  // time for it to get in line
  second_waits.set_value();
  one.wait();
  EXPECT_LT(done_of_many, 500U);
  many.wait();
  EXPECT_EQ(done_of_many, 1000U);
}

TEST(TokenizerThreads, StopWhenInterrupted) {
  TokenizerThreads threads(2);
  std::atomic<bool> gone = false;
  std::atomic<size_t> started = 0;
  const auto error = threads.run(
      100'000,
      [&](size_t) {
        ++started;
        gone = true;
        std::this_thread::sleep_for(milliseconds(1));
        return nothing();
      },
      [&] { return gone ? std::optional(error_about(7)) : std::nullopt; });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->param, "7");
  EXPECT_LT(started, 50'000U);
}

TEST(TokenizerThreads, WhoeverIsInterruptedBeforeStartsNothing) {
  TokenizerThreads threads(1);
  const auto error = threads.run(
      1,
      [](size_t) {
        ADD_FAILURE() << "started";
        return nothing();
      },
      [] { return std::optional(error_about(1)); });
  EXPECT_TRUE(error);
}

TEST(TokenizerThreads, ExceptionOfTheInterruptionLeavesNoTaskBehind) {
  TokenizerThreads threads(1);
  std::atomic<int> asked = 0;
  std::atomic<bool> running = false;
  const auto task = [&](size_t) {
    running = true;
    std::this_thread::sleep_for(milliseconds(120));
    running = false;
    return nothing();
  };
  EXPECT_THROW(threads.run(100, task,
                           [&]() -> std::optional<ApiError> {
                             if (++asked > 1) throw std::bad_alloc();
                             return std::nullopt;
                           }),
               std::bad_alloc);
  EXPECT_FALSE(running);
}

TEST(TokenizerThreads, AreLessImportantThanTheirCreator) {
  TokenizerThreads threads(1);
  const int own = ::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()));
  int theirs = own;
  threads.run(
      1,
      [&](size_t) {
        theirs = ::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()));
        return nothing();
      },
      nothing);
  EXPECT_EQ(theirs, std::min(19, own + 10));
}

TEST(TokenizerThreads, ServeManyRequestsAtOnce) {
  TokenizerThreads threads(2);
  std::vector<std::future<size_t>> sums;
  for (size_t request = 0; request < 16; ++request) {
    sums.push_back(std::async(std::launch::async, [&threads] {
      size_t sum = 0;
      for (int repeat = 0; repeat < 50; ++repeat) {
        std::vector<size_t> results(7);
        threads.run(
            results.size(),
            [&](size_t i) {
              results[i] = i;
              return nothing();
            },
            nothing);
        sum += std::accumulate(results.begin(), results.end(), size_t{0});
      }
      return sum;
    }));
  }
  for (auto& sum : sums) EXPECT_EQ(sum.get(), 50U * 21U);
}

}  // namespace
}  // namespace espalier::server
