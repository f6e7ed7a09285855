#include "server/service/memory_pool.h"

#include <gmock/gmock.h>

#include <atomic>
#include <new>
#include <thread>
#include <vector>

namespace espalier::server {
namespace {

constexpr uint64_t kClient = 1;
constexpr uint64_t kOther = 2;
const MemoryPool::Interruption kPatient = [] { return std::nullopt; };

std::optional<ApiError> gone() {
  ApiError error;
  error.kind = ErrorKind::kClientGone;
  return error;
}

TEST(MemoryPool, WhatNeverFitsIsRefusedAtOnce) {
  MemoryPool pool(1000, "reading");
  EXPECT_TRUE(pool.take(kClient, 875, kPatient));
  const auto refused = pool.take(kClient, 876, kPatient);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kPayloadTooLarge);
  EXPECT_EQ(refused.error().code, kTooLargeCode);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("reading this request"));
  EXPECT_EQ(pool.bytes_in_use(), 0U);
}

TEST(MemoryPool, AShareIsGivenBackWhole) {
  MemoryPool pool(1000, "reading");
  auto first = pool.take(kClient, 500, kPatient);
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
  const auto held = pool.take(kClient, 800, kPatient);
  const auto refused = pool.take(kClient, 500, gone);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kClientGone);
  EXPECT_EQ(pool.bytes_in_use(), 800U);
}

TEST(MemoryPool, SmallOnesPassLargeOnesThatWait) {
  MemoryPool pool(1024, "reading");
  auto held = pool.take(kClient, 800, kPatient);
  std::thread large([&] { EXPECT_TRUE(pool.take(kClient, 700, kPatient)); });
  for (int i = 0; i < 30; ++i) {
    const auto small = pool.take(kClient, 4, kPatient);
    EXPECT_TRUE(small);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  *held = {};
  large.join();
  EXPECT_EQ(pool.bytes_in_use(), 0U);
}

/// Waits in a thread of its own, and has its share until it goes away.
class Taker {
 public:
  Taker(MemoryPool& pool, uint64_t client, size_t bytes)
      : thread_([this, &pool, client, bytes] {
          auto share = pool.take(client, bytes, [this]() -> std::optional<ApiError> {
            ++asked_;
            return std::nullopt;
          });
          ASSERT_TRUE(share);
          share_ = std::move(*share);
          has_ = true;
        }) {}
  ~Taker() {
    if (thread_.joinable()) thread_.join();
  }
  Taker(const Taker&) = delete;
  Taker& operator=(const Taker&) = delete;

  bool has() const { return has_; }
  /// Until it has asked so many times whether it is still wanted, and so found no room.
  void await_asked(int times = 1) const {
    for (const int before = asked_; asked_ < before + times;) std::this_thread::yield();
  }
  void join() { thread_.join(); }
  void give_back() { share_ = {}; }

 private:
  std::atomic<int> asked_ = 0;
  std::atomic<bool> has_ = false;
  MemoryPool::Share share_;
  std::thread thread_;
};

TEST(MemoryPool, AClientThatHasSomethingLeavesAQuarterToTheOthers) {
  MemoryPool pool(1024, "reading");
  const auto first = pool.take(kClient, 400, kPatient);
  const auto second = pool.take(kClient, 240, kPatient);
  ASSERT_TRUE(second);  // five eighths
  EXPECT_FALSE(pool.take(kClient, 10, gone));
  EXPECT_TRUE(pool.take(kOther, 256, kPatient));
  EXPECT_TRUE(pool.take(kClient, 4, kPatient));  // small
}

TEST(MemoryPool, WhoHasNothingComesBeforeThoseThatHave) {
  MemoryPool pool(1024, "reading");
  auto held = pool.take(kClient, 800, kPatient);
  Taker same(pool, kClient, 500);
  same.await_asked();
  Taker other(pool, kOther, 500);
  other.await_asked();
  held->shrink_to(300);
  other.join();
  EXPECT_FALSE(same.has());
  *held = {};
  same.await_asked();
  EXPECT_FALSE(same.has());
  other.give_back();
  same.join();
}

TEST(MemoryPool, ClientsTakeTurnsHoweverManyRequestsOneOfThemHas) {
  MemoryPool pool(1024, "reading");
  auto held = pool.take(kClient, 800, kPatient);
  Taker first(pool, kClient, 700), second(pool, kClient, 700);
  first.await_asked();
  second.await_asked();
  Taker other(pool, kOther, 700);
  other.await_asked();
  *held = {};  // now neither client has anything, and one of them had its turn
  other.join();
  EXPECT_FALSE(first.has() || second.has());
  // A third one, that comes anew, comes behind those that wait.
  Taker third(pool, 3, 700);
  third.await_asked();
  other.give_back();
  while (!first.has() && !second.has()) std::this_thread::yield();
  EXPECT_FALSE(third.has());
  Taker& served = first.has() ? first : second;
  Taker& unserved = first.has() ? second : first;
  served.join();
  served.give_back();
  third.join();
  EXPECT_FALSE(unserved.has());
  third.give_back();
  unserved.join();
}

TEST(MemoryPool, AnInterruptionThatThrowsLeavesNothingBehind) {
  MemoryPool pool(1024, "reading");
  auto held = pool.take(kClient, 800, kPatient);
  const auto throws = []() -> std::optional<ApiError> { throw std::bad_alloc(); };
  EXPECT_THROW(static_cast<void>(pool.take(kOther, 700, throws)), std::bad_alloc);
  *held = {};
  EXPECT_TRUE(pool.take(kClient, 700, kPatient));  // nobody stands before it
  EXPECT_EQ(pool.bytes_in_use(), 0U);
}

TEST(MemoryPool, NothingIsAlwaysThere) {
  MemoryPool pool(1000, "reading");
  const auto held = pool.take(kClient, 875, kPatient);
  EXPECT_TRUE(pool.take(kOther, 0, gone));
}

TEST(MemoryPool, LargeOnesOfAClientGetTheirsInTheOrderInWhichTheyCame) {
  MemoryPool pool(1024, "reading");
  auto held = pool.take(kOther, 800, kPatient);
  std::atomic<int> asked = 0;
  std::atomic<bool> first_has = false, second_has = false;
  const MemoryPool::Interruption count = [&] {
    ++asked;
    return std::nullopt;
  };
  std::thread first([&] {
    const auto share = pool.take(kClient, 700, count);
    first_has = share.has_value();
  });
  while (asked == 0) std::this_thread::yield();
  std::thread second([&] {
    const auto share = pool.take(kClient, 300, count);  // would fit beside the one that is held
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
        const auto share = pool.take(t % 3, bytes, kPatient);
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
