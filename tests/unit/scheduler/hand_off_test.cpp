#include "scheduler/hand_off.h"

#include <gtest/gtest.h>

#include <future>

namespace espalier::scheduler {
namespace {

using namespace std::chrono_literals;

std::unique_ptr<Batch> planned(HandOff& hand_off) {
  std::unique_ptr<Batch> batch = hand_off.wait_for_spare();
  batch->tickets.resize(1);
  return batch;
}

TEST(HandOff, HoldsOneBatchUntilTheWorkerTakesIt) {
  HandOff hand_off;
  std::unique_ptr<Batch> batch = planned(hand_off);
  const Batch* address = batch.get();
  hand_off.put(std::move(batch));
  auto next = std::async(std::launch::async, [&] { return hand_off.wait_for_spare(); });
  EXPECT_EQ(next.wait_for(20ms), std::future_status::timeout);
  EXPECT_EQ(hand_off.take().get(), address);
  EXPECT_NE(next.get(), nullptr);
}

TEST(HandOff, BatchesComeBackWithTheirMemoryAndWithoutTheirTickets) {
  HandOff hand_off;
  std::unique_ptr<Batch> batch = planned(hand_off);
  const Batch* address = batch.get();
  batch->plan.token_ids.resize(100);
  hand_off.put(std::move(batch));
  hand_off.give_back(hand_off.take());
  const std::unique_ptr<Batch> again = hand_off.wait_for_spare();
  EXPECT_EQ(again.get(), address);
  EXPECT_GE(again->plan.token_ids.capacity(), 100U);
  EXPECT_TRUE(again->tickets.empty());
}

TEST(HandOff, ABatchWithoutTicketsDoesNotReachTheWorker) {
  HandOff hand_off;
  hand_off.put(hand_off.wait_for_spare());
  EXPECT_EQ(hand_off.recall(), nullptr);
}

TEST(HandOffDeathTest, NoMoreThanTwoBatchesTravel) {
  HandOff hand_off;
  const auto runs = hand_off.wait_for_spare();
  const auto planned = hand_off.wait_for_spare();
  EXPECT_DEATH((void)hand_off.wait_for_spare(), "more batches were asked for");
}

TEST(HandOff, RecallsWhatWasPlannedAndLetsThePlannerRest) {
  HandOff hand_off;
  std::unique_ptr<Batch> batch = planned(hand_off);
  const Batch* address = batch.get();
  hand_off.put(std::move(batch));
  std::unique_ptr<Batch> recalled = hand_off.recall();
  EXPECT_EQ(recalled.get(), address);
  hand_off.give_back(std::move(recalled));
  auto next = std::async(std::launch::async, [&] { return hand_off.wait_for_spare(); });
  EXPECT_EQ(next.wait_for(20ms), std::future_status::timeout);
  hand_off.resume();
  EXPECT_NE(next.get(), nullptr);
}

TEST(HandOff, ARecallWaitsForThePlannerToFinish) {
  HandOff hand_off;
  std::unique_ptr<Batch> batch = planned(hand_off);
  const Batch* address = batch.get();
  auto recalled = std::async(std::launch::async, [&] { return hand_off.recall(); });
  EXPECT_EQ(recalled.wait_for(20ms), std::future_status::timeout);
  hand_off.put(std::move(batch));
  EXPECT_EQ(recalled.get().get(), address);
}

TEST(HandOff, ClosingWakesBothSides) {
  HandOff hand_off;
  auto worker = std::async(std::launch::async, [&] { return hand_off.take() == nullptr; });
  hand_off.close();
  EXPECT_TRUE(worker.get());
  EXPECT_EQ(hand_off.wait_for_spare(), nullptr);
}

TEST(HandOff, ClosingWakesAPlannerAtRest) {
  HandOff hand_off;
  EXPECT_EQ(hand_off.recall(), nullptr);
  auto planner = std::async(std::launch::async, [&] { return hand_off.wait_for_spare(); });
  hand_off.close();
  EXPECT_EQ(planner.get(), nullptr);
}

TEST(HandOff, ABatchInTheSlotIsNotRunAfterClosing) {
  HandOff hand_off;
  hand_off.put(planned(hand_off));
  hand_off.close();
  EXPECT_EQ(hand_off.take(), nullptr);
}

}  // namespace
}  // namespace espalier::scheduler
