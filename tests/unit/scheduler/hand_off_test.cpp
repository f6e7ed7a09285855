#include "scheduler/hand_off.h"

#include <gtest/gtest.h>

#include <future>

namespace espalier::scheduler {
namespace {

using namespace std::chrono_literals;

TEST(HandOff, HoldsOneBatchUntilTheWorkerTakesIt) {
  HandOff hand_off;
  ASSERT_TRUE(hand_off.wait_until_empty());
  std::unique_ptr<Batch> batch = hand_off.spare();
  const Batch* address = batch.get();
  hand_off.put(std::move(batch));
  auto empty = std::async(std::launch::async, [&] { return hand_off.wait_until_empty(); });
  EXPECT_EQ(empty.wait_for(20ms), std::future_status::timeout);
  EXPECT_EQ(hand_off.take().get(), address);
  EXPECT_TRUE(empty.get());
}

TEST(HandOff, BatchesComeBackWithTheirMemoryAndWithoutTheirTickets) {
  HandOff hand_off;
  std::unique_ptr<Batch> batch = hand_off.spare();
  const Batch* address = batch.get();
  batch->plan.token_ids.resize(100);
  batch->tickets.resize(3);
  hand_off.give_back(std::move(batch));
  const std::unique_ptr<Batch> again = hand_off.spare();
  EXPECT_EQ(again.get(), address);
  EXPECT_GE(again->plan.token_ids.capacity(), 100U);
  EXPECT_TRUE(again->tickets.empty());
}

TEST(HandOffDeathTest, NoMoreThanTwoBatchesTravel) {
  HandOff hand_off;
  const auto runs = hand_off.spare();
  const auto planned = hand_off.spare();
  EXPECT_DEATH((void)hand_off.spare(), "while the slot was full");
}

TEST(HandOff, ClosingWakesBothSides) {
  HandOff hand_off;
  auto worker = std::async(std::launch::async, [&] { return hand_off.take() == nullptr; });
  hand_off.close();
  EXPECT_TRUE(worker.get());
  EXPECT_FALSE(hand_off.wait_until_empty());
}

TEST(HandOff, ABatchInTheSlotIsNotRunAfterClosing) {
  HandOff hand_off;
  hand_off.put(hand_off.spare());
  hand_off.close();
  EXPECT_EQ(hand_off.take(), nullptr);
}

}  // namespace
}  // namespace espalier::scheduler
