#include "scheduler/hand_off.h"

#include <gtest/gtest.h>

#include <future>

namespace espalier::scheduler {
namespace {

using namespace std::chrono_literals;

std::unique_ptr<Batch> planned(HandOff& hand_off) {
  std::unique_ptr<Batch> batch = hand_off.wait_for_spare();
  batch->choice.tickets.resize(1);
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
  EXPECT_TRUE(again->tickets().empty());
}

TEST(HandOff, NoMoreThanTwoBatchesTravel) {
  HandOff hand_off;
  auto runs = hand_off.wait_for_spare();
  const auto planned = hand_off.wait_for_spare();
  auto third = std::async(std::launch::async, [&] { return hand_off.wait_for_spare(); });
  EXPECT_EQ(third.wait_for(20ms), std::future_status::timeout);
  hand_off.give_back(std::move(runs));
  EXPECT_NE(third.get(), nullptr);
}

TEST(HandOff, ABatchIsWantedByAnIdleWorker) {
  HandOff hand_off;
  auto wanted = std::async(std::launch::async, [&] { return hand_off.wait_until_wanted(); });
  EXPECT_EQ(wanted.wait_for(20ms), std::future_status::timeout);
  auto worker = std::async(std::launch::async, [&] { return hand_off.take(); });
  EXPECT_EQ(wanted.get(), Wanted::kNow);
  hand_off.put(planned(hand_off));
  EXPECT_NE(worker.get(), nullptr);
}

TEST(HandOff, ABatchIsWantedByAWorkerThatIsNearlyDone) {
  HandOff hand_off;
  hand_off.want_soon();
  EXPECT_EQ(hand_off.wait_until_wanted(), Wanted::kSoon);
  hand_off.put(planned(hand_off));
  auto again = std::async(std::launch::async, [&] { return hand_off.wait_until_wanted(); });
  EXPECT_EQ(again.wait_for(20ms), std::future_status::timeout);  // it has what it wanted
  hand_off.want_soon();                                          // says so again in vain
  EXPECT_EQ(again.wait_for(20ms), std::future_status::timeout);
  EXPECT_NE(hand_off.take(), nullptr);
  hand_off.want_soon();
  EXPECT_EQ(again.get(), Wanted::kSoon);
}

TEST(HandOff, ClosingWakesBothSides) {
  HandOff hand_off;
  auto worker = std::async(std::launch::async, [&] { return hand_off.take() == nullptr; });
  hand_off.close();
  EXPECT_TRUE(worker.get());
  EXPECT_EQ(hand_off.wait_until_wanted(), Wanted::kNever);
  EXPECT_EQ(hand_off.wait_for_spare(), nullptr);
}

TEST(HandOff, ABatchInTheSlotIsNotRunAfterClosing) {
  HandOff hand_off;
  hand_off.put(planned(hand_off));
  hand_off.close();
  EXPECT_EQ(hand_off.take(), nullptr);
}

}  // namespace
}  // namespace espalier::scheduler
