#include "server/service/memory_pool.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>
#include <vector>

namespace espalier::server {
namespace {

const MemoryPool::Interruption kPatient = [] { return std::nullopt; };

std::optional<ApiError> gone() {
  ApiError error;
  error.kind = ErrorKind::kClientGone;
  return error;
}

TEST(MemoryPool, WhatNeverFitsIsRefusedAtOnce) {
  MemoryPool pool(1000, "reading");
  EXPECT_TRUE(pool.take(875, kPatient));
  const auto refused = pool.take(876, kPatient);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kPayloadTooLarge);
  EXPECT_EQ(refused.error().code, kTooLargeCode);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("reading this request"));
  EXPECT_EQ(pool.bytes_in_use(), 0U);
}

TEST(MemoryPool, AShareIsGivenBackWhole) {
  MemoryPool pool(1000, "reading");
  auto first = pool.take(500, kPatient);
  first->shrink_to(600);
  EXPECT_EQ(pool.bytes_in_use(), 500U);
  first->shrink_to(200);
  EXPECT_EQ(pool.bytes_in_use(), 200U);
  MemoryPool::Share moved = std::move(*first);
  EXPECT_EQ(pool.bytes_in_use(), 200U);
  moved = {};
  EXPECT_EQ(pool.bytes_in_use(), 0U);
}

TEST(MemoryPool, WhoeverWaitsMayLeave) {
  MemoryPool pool(1000, "reading");
  const auto held = pool.take(800, kPatient);
  const auto refused = pool.take(500, gone);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kClientGone);
  EXPECT_EQ(pool.bytes_in_use(), 800U);
}

TEST(MemoryPool, SmallOnesPassLargeOnesThatWait) {
  MemoryPool pool(1024, "reading");
  auto held = pool.take(800, kPatient);
  std::thread large([&] { EXPECT_TRUE(pool.take(700, kPatient)); });
  for (int i = 0; i < 30; ++i) {
    const auto small = pool.take(4, kPatient);
    EXPECT_TRUE(small);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  *held = {};
  large.join();
  EXPECT_EQ(pool.bytes_in_use(), 0U);
}

TEST(MemoryPool, LargeOnesGetTheirsInTheOrderInWhichTheyCame) {
  MemoryPool pool(1024, "reading");
  auto held = pool.take(800, kPatient);
  std::atomic<int> asked = 0;
  std::atomic<bool> first_has = false, second_has = false;
  const MemoryPool::Interruption count = [&] {
    ++asked;
    return std::nullopt;
  };
  std::thread first([&] {
    const auto share = pool.take(700, count);
    first_has = share.has_value();
  });
  while (asked == 0) std::this_thread::yield();
  std::thread second([&] {
    const auto share = pool.take(300, count);  // would fit beside the one that is held
    EXPECT_TRUE(first_has);
    second_has = share.has_value();
  });
  const int before = asked;
  while (asked < before + 4) std::this_thread::yield();
  EXPECT_FALSE(second_has);
  *held = {};
  first.join();
  second.join();
  EXPECT_TRUE(second_has);
}

TEST(MemoryPool, ItsSumIsNeverExceeded) {
  MemoryPool pool(1000, "reading");
  std::atomic<size_t> taken = 0;
  std::atomic<size_t> most = 0;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 200; ++i) {
        const size_t bytes = 1 + (i * 131 + t * 37) % 400;
        const auto share = pool.take(bytes, kPatient);
        ASSERT_TRUE(share);
        const size_t now = taken.fetch_add(bytes) + bytes;
        size_t seen = most;
        while (now > seen && !most.compare_exchange_weak(seen, now)) {
        }
        std::this_thread::sleep_for(std::chrono::microseconds(20));
        taken -= bytes;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_LE(most, 1000U);
  EXPECT_GT(most, 400U);  // several had theirs at once
  EXPECT_EQ(pool.bytes_in_use(), 0U);
}

}  // namespace
}  // namespace espalier::server
