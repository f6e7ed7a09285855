#include "engine/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

namespace espalier::engine {
namespace {

TEST(ThreadPool, CallsTheBodyOnceForEachTask) {
  for (const size_t threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (const size_t tasks : {0, 1, 2, 3, 17, 1000}) {
      std::vector<std::atomic<int>> calls(tasks);
      pool.parallel_for(tasks, [&](size_t task, size_t worker) {
        EXPECT_LT(worker, threads);
        ++calls[task];
      });
      for (const std::atomic<int>& count : calls) EXPECT_EQ(count, 1);
    }
  }
}

TEST(ThreadPool, WhatTheBodiesWroteIsVisibleAfterwards) {
  ThreadPool pool(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<size_t> plain(97);
    pool.parallel_for(plain.size(), [&](size_t task, size_t) { plain[task] = task + 1; });
    for (size_t i = 0; i < plain.size(); ++i) ASSERT_EQ(plain[i], i + 1);
  }
}

TEST(ThreadPool, AWorkerNumberIsNeverInUseTwice) {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> inside(pool.size());
  pool.parallel_for(500, [&](size_t, size_t worker) {
    EXPECT_EQ(++inside[worker], 1);
    std::this_thread::yield();
    --inside[worker];
  });
}

TEST(ThreadPool, TwoTasksRunAtTheSameTime) {
  ThreadPool pool(2);
  std::atomic<int> arrived{0};
  // Each task waits for the other: one thread alone would wait until the deadline.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  pool.parallel_for(2, [&](size_t, size_t) {
    ++arrived;
    while (arrived < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 2);
  EXPECT_LT(std::chrono::steady_clock::now(), deadline);
}

TEST(ThreadPool, RethrowsTheExceptionAfterTheOtherTasksHaveFinished) {
  for (const size_t threads : {1, 3}) {
    ThreadPool pool(threads);
    std::atomic<int> finished{0};
    const auto run = [&] {
      pool.parallel_for(50, [&](size_t task, size_t) {
        if (task == 7) throw std::runtime_error("task 7");
        ++finished;
      });
    };
    EXPECT_THROW(run(), std::runtime_error);
    EXPECT_EQ(finished, 49);
    // The pool is usable afterwards.
    pool.parallel_for(10, [&](size_t, size_t) { ++finished; });
    EXPECT_EQ(finished, 59);
  }
}

TEST(ThreadPool, ManyExceptionsBecomeOne) {
  ThreadPool pool(3);
  const auto run = [&] { pool.parallel_for(20, [](size_t, size_t) { throw std::bad_alloc(); }); };
  EXPECT_THROW(run(), std::bad_alloc);
}

TEST(ThreadPool, MayBeUsedFromOneThreadAfterAnother) {
  ThreadPool pool(2);
  std::atomic<int> calls{0};
  for (int i = 0; i < 3; ++i) {
    std::thread([&] { pool.parallel_for(5, [&](size_t, size_t) { ++calls; }); }).join();
  }
  EXPECT_EQ(calls, 15);
}

TEST(ThreadPoolDeathTest, AParallelForWithinAnotherAborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        ThreadPool pool(2);
        pool.parallel_for(4, [&](size_t, size_t) { pool.parallel_for(4, [](size_t, size_t) {}); });
      },
      "during another one");
}

}  // namespace
}  // namespace espalier::engine
