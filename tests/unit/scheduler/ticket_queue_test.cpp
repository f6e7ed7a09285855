#include "scheduler/ticket_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "tests/unit/scheduler/request_fixture.h"

namespace espalier::scheduler {
namespace {

using testing::admit;
using testing::choose;
using ::testing::ElementsAre;
using testing::for_model;
using testing::from_client;
using testing::indices;
using testing::no_bounds;
using testing::queue_of;
using testing::submission_of;
using testing::take;
using namespace std::chrono_literals;

TEST(TicketQueue, GivesTicketsInOrderOfArrival) {
  const auto queue = queue_of();
  const auto a = admit(queue, submission_of({{1}, {2}}));
  const auto b = admit(queue, submission_of({{3}}));
  const Choice taken = take(*queue, 10);
  ASSERT_EQ(taken.tickets.size(), 3U);
  EXPECT_EQ(taken.tickets[0].request, a);
  EXPECT_EQ(taken.tickets[1].request, a);
  EXPECT_EQ(taken.tickets[2].request, b);
  EXPECT_THAT(indices(taken.tickets), ElementsAre(0, 1, 0));
}

TEST(TicketQueue, ARequestMaySpreadOverBatches) {
  const auto queue = queue_of();
  const auto request = admit(queue, submission_of({{1}, {2}, {3}, {4}, {5}}));
  EXPECT_THAT(indices(take(*queue, 2).tickets), ElementsAre(0, 1));
  EXPECT_EQ(queue->depth().tickets, 3U);
  EXPECT_THAT(indices(take(*queue, 2).tickets), ElementsAre(2, 3));
  EXPECT_THAT(indices(take(*queue, 2).tickets), ElementsAre(4));
  EXPECT_THAT(indices(take(*queue, 2).tickets), ElementsAre());
}

TEST(TicketQueue, AdmitsAllTicketsOfARequestOrNone) {
  const auto queue = queue_of(1, 3);
  EXPECT_NE(admit(queue, submission_of({{1}, {2}})), nullptr);
  const auto refused =
      std::make_shared<RequestState>(submission_of({{1}, {2}}), queue, Clock::now());
  EXPECT_EQ(queue->admit(refused), QueueAnswer::kFull);
  EXPECT_EQ(queue->depth().tickets, 2U);
  EXPECT_NE(admit(queue, submission_of({{1}})), nullptr);
  EXPECT_EQ(queue->depth().tickets, 3U);
  EXPECT_EQ(queue->open_requests().size(), 2U);
}

// The state of a row goes through the rest of the last layer only if it is wanted.
TEST(TicketQueue, ATicketCostsMoreThatWantsAllItsRows) {
  const auto queue =
      std::make_shared<TicketQueue>(QueueLimits{testing::kNoLimit, testing::kNoLimit},
                                    turn_rules({}, 1), std::vector<PassCosts>{{0, 0.5}});
  const auto last = admit(queue, submission_of({{1, 2, 3, 4}}));
  EXPECT_DOUBLE_EQ(queue->depth().cost, 4.5);
  Submission all = submission_of({{1, 2, 3, 4}});
  all.sequences[0].wanted = WantedRows::kAll;
  const auto second = admit(queue, std::move(all));
  EXPECT_DOUBLE_EQ(queue->depth().cost, 4.5 + 6);
}

TEST(TicketQueue, IsFullWhenItHoldsItsTokens) {
  const auto queue = queue_of(1, testing::kNoLimit, {}, 5);
  EXPECT_NE(admit(queue, submission_of({{1, 2, 3}})), nullptr);
  EXPECT_EQ(admit(queue, submission_of({{4, 5, 6}})), nullptr);
  EXPECT_NE(admit(queue, submission_of({{4}, {5}})), nullptr);
  EXPECT_EQ(admit(queue, submission_of({{7}})), nullptr);
}

TEST(TicketQueue, AnEighthIsKeptForThoseWhoSendLittle) {
  SchedulerLimits limits;
  limits.batch_rows_max = 16;  // 2 tokens are light
  const auto queue = queue_of(1, 16, limits);
  const auto bulk = admit(
      queue, from_client(1, submission_of(std::vector<std::vector<uint32_t>>(14, {1, 2, 3}))));
  ASSERT_NE(bulk, nullptr);
  EXPECT_EQ(admit(queue, from_client(1, submission_of({{1}}))), nullptr);
  EXPECT_EQ(admit(queue, from_client(2, submission_of({{1, 2, 3}}))), nullptr);
  EXPECT_NE(admit(queue, from_client(2, submission_of({{1}}))), nullptr);
  EXPECT_NE(admit(queue, from_client(2, submission_of({{1}}))), nullptr);
  EXPECT_EQ(admit(queue, from_client(3, submission_of({{1}}))), nullptr);  // now it is full
}

TEST(TicketQueue, EachOfSeveralModelsHasAShareThatOthersDoNotTake) {
  SchedulerLimits limits;
  limits.batch_rows_max = 16;                  // 2 tokens are light
  const auto queue = queue_of(2, 64, limits);  // 16 for each
  const std::vector<std::vector<uint32_t>> eight(8, {1, 2, 3, 4});
  const auto sends = [&](size_t model, std::vector<std::vector<uint32_t>> ids) {
    const auto request = std::make_shared<RequestState>(
        for_model(model, submission_of(std::move(ids))), queue, Clock::now());
    return queue->admit(request) == QueueAnswer::kAdmitted ? request : nullptr;
  };
  std::vector<std::shared_ptr<RequestState>> flood;
  while (auto request = sends(0, eight)) flood.push_back(std::move(request));
  // The share of the other, and the eighth for light clients, are free.
  EXPECT_EQ(queue->depths()[0].tickets, 64U - 16U - 8U);
  const auto other = sends(1, eight);
  EXPECT_NE(other, nullptr);
  const auto more = sends(1, eight);
  EXPECT_NE(more, nullptr);
  EXPECT_EQ(sends(1, eight), nullptr);  // the rest is for light clients
  EXPECT_EQ(sends(0, eight), nullptr);
}

TEST(TicketQueue, ARequestThatFillsTheQueueAloneIsAdmittedToAnEmptyOne) {
  SchedulerLimits limits;
  limits.batch_rows_max = 16;
  const auto queue = queue_of(1, 16, limits);
  EXPECT_NE(admit(queue, submission_of(std::vector<std::vector<uint32_t>>(16, {1, 2, 3}))),
            nullptr);
}

TEST(TicketQueue, CountsTicketsAndTokensThatWait) {
  const auto queue = queue_of();
  const auto request = admit(queue, submission_of({{1, 2, 3}, {4, 5}, {6}}));
  EXPECT_EQ(queue->depth().tokens, 6U);
  take(*queue, 1);
  EXPECT_EQ(queue->depth().tickets, 2U);
  EXPECT_EQ(queue->depth().tokens, 3U);
  request->fail(shutting_down_failure());
  EXPECT_EQ(queue->depth().tickets, 0U);
  EXPECT_EQ(queue->depth().tokens, 0U);
}

TEST(TicketQueue, WhatIsChosenWaitsUntilItIsDispatched) {
  const auto queue = queue_of();
  const auto request = admit(queue, submission_of({{1}, {2}}));
  const Choice first = choose(*queue, no_bounds());
  EXPECT_EQ(first.tickets.size(), 2U);
  EXPECT_EQ(queue->depth().tickets, 2U);
  const Choice second = choose(*queue, no_bounds());
  EXPECT_EQ(second.tickets.size(), 2U);
  EXPECT_TRUE(queue->dispatch(second));
  EXPECT_EQ(queue->depth().tickets, 0U);
  EXPECT_FALSE(queue->dispatch(first));  // they are gone
}

TEST(TicketQueue, AChoiceOfWhichATicketHasLeftIsNotDispatchedAtAll) {
  const auto queue = queue_of();
  const auto a = admit(queue, submission_of({{1}}));
  const auto b = admit(queue, submission_of({{2}}));
  const Choice choice = choose(*queue, no_bounds());
  b->fail(shutting_down_failure());
  EXPECT_FALSE(queue->dispatch(choice));
  EXPECT_EQ(queue->depth().tickets, 1U);
}

TEST(TicketQueue, AnEmptyChoiceIsNotDispatched) {
  const auto queue = queue_of();
  const Choice choice = choose(*queue, no_bounds());
  EXPECT_FALSE(queue->dispatch(choice));
}

TEST(TicketQueue, TheVersionTellsWhetherTicketsHaveComeOrLeft) {
  const auto queue = queue_of();
  uint64_t version = queue->version();
  const auto changed = [&] { return std::exchange(version, queue->version()) != version; };
  const auto a = admit(queue, submission_of({{1}, {2}}));
  EXPECT_TRUE(changed());
  const Choice choice = choose(*queue, no_bounds());
  EXPECT_FALSE(changed());
  a->fail(shutting_down_failure());
  EXPECT_TRUE(changed());
  const auto b = admit(queue, submission_of({{1}}));
  take(*queue, 1);
  EXPECT_TRUE(changed());
  b->fulfil(0, {}, 1, Clock::now());  // nothing of it waited any more
  EXPECT_FALSE(changed());
}

TEST(TicketQueue, WaitsForAChangeButNoLongerThanTold) {
  const auto queue = queue_of();
  queue->wait_for_change(queue->version(), Clock::now() + 1ms);
  const uint64_t version = queue->version();
  auto waiter =
      std::async(std::launch::async, [&] { queue->wait_for_change(version, Clock::now() + 1h); });
  const auto request = admit(queue, submission_of({{1}}));
  waiter.get();
  auto stopped = std::async(std::launch::async,
                            [&] { queue->wait_for_change(queue->version(), Clock::now() + 1h); });
  queue->stop();
  stopped.get();
}

TEST(TicketQueue, ABatchHasOneModelAndTheLongestWaitDecidesWhich) {
  const auto queue = queue_of(2);
  const auto a = admit(queue, for_model(1, submission_of({{1}, {2}})));
  const auto b = admit(queue, for_model(0, submission_of({{4, 4, 4, 4}})));
  Choice taken = take(*queue, 10);
  EXPECT_EQ(taken.model, 1U);
  EXPECT_EQ(taken.tickets.size(), 2U);
  taken = take(*queue, 10);
  EXPECT_EQ(taken.model, 0U);
  ASSERT_EQ(taken.tickets.size(), 1U);
  EXPECT_EQ(taken.tickets[0].request, b);
}

TEST(TicketQueue, AFloodForOneModelDoesNotStarveAnother) {
  const auto queue = queue_of(2, 1000);
  std::vector<std::shared_ptr<RequestState>> flood;
  flood.push_back(admit(queue, for_model(0, submission_of({{1}, {2}}))));
  for (int i = 0; i < 50; ++i) {
    flood.push_back(admit(queue, for_model(0, submission_of({{1}, {2}}))));
  }
  EXPECT_EQ(take(*queue, 2).tickets.front().request, flood[0]);
  const auto lone = admit(queue, for_model(1, submission_of({{9}})));
  size_t batches = 0;
  while (take(*queue, 2).tickets.front().request != lone) {
    ++batches;
  }
  EXPECT_LE(batches, 2U);
}

TEST(TicketQueue, ARequestThatEndsFreesItsPlaceWhereverItStands) {
  const auto queue = queue_of(1, 3);
  const auto a = admit(queue, submission_of({{1}}));
  const auto b = admit(queue, submission_of({{2}}));
  const auto c = admit(queue, submission_of({{3}}));
  EXPECT_TRUE(b->fail(shutting_down_failure()));
  EXPECT_EQ(queue->depth().tickets, 2U);
  EXPECT_NE(admit(queue, submission_of({{4}})), nullptr);
  const Choice taken = take(*queue, 2);
  ASSERT_EQ(taken.tickets.size(), 2U);
  EXPECT_EQ(taken.tickets[0].request, a);
  EXPECT_EQ(taken.tickets[1].request, c);
}

TEST(TicketQueue, ExpiredRequestsAreHandedOverAndNotTaken) {
  const auto queue = queue_of();
  Submission late = submission_of({{1}, {2}});
  const Clock::time_point now = Clock::now();
  late.deadline = now + 1s;
  const auto expired = admit(queue, late);
  const auto alive = admit(queue, submission_of({{3}}));
  const Choice taken = take(*queue, 10, now + 1s);
  EXPECT_THAT(taken.expired, ElementsAre(expired));
  ASSERT_EQ(taken.tickets.size(), 1U);
  EXPECT_EQ(taken.tickets[0].request, alive);
  EXPECT_EQ(queue->open_requests().size(), 2U);  // until somebody fails it
}

TEST(TicketQueue, AdmitsNothingOnceClosedButGivesWhatItHas) {
  const auto queue = queue_of();
  const auto request = admit(queue, submission_of({{1}}));
  queue->close();
  const auto late = std::make_shared<RequestState>(submission_of({{2}}), queue, Clock::now());
  EXPECT_EQ(queue->admit(late), QueueAnswer::kClosed);
  EXPECT_TRUE(queue->wait_for_tickets());
  EXPECT_EQ(take(*queue, 1).tickets.size(), 1U);
}

TEST(TicketQueue, WakesTheWaiterForATicketAndForAStop) {
  const auto queue = queue_of();
  auto first = std::async(std::launch::async, [&] { return queue->wait_for_tickets(); });
  const auto request = admit(queue, submission_of({{1}}));
  EXPECT_TRUE(first.get());
  take(*queue, 1);
  auto second = std::async(std::launch::async, [&] { return queue->wait_for_tickets(); });
  queue->stop();
  EXPECT_FALSE(second.get());
}

TEST(TicketQueue, WaitsUntilAllRequestsHaveEndedNotOnlyLeftTheQueue) {
  const auto queue = queue_of();
  EXPECT_TRUE(queue->wait_until_all_ended(0ms));
  const auto request = admit(queue, submission_of({{1}}));
  take(*queue, 1);
  EXPECT_FALSE(queue->wait_until_all_ended(1ms));
  auto waiter = std::async(std::launch::async, [&] {
    return queue->wait_until_all_ended(std::chrono::milliseconds::max());
  });
  request->fulfil(0, {1.0F}, 1, Clock::now());
  EXPECT_TRUE(waiter.get());
}

TEST(TicketQueue, LetsGoOfARequestThatHasEnded) {
  const auto queue = queue_of();
  auto request = admit(queue, submission_of({{1}}));
  const std::weak_ptr<RequestState> watch = request;
  request->fail(shutting_down_failure());
  request.reset();
  EXPECT_TRUE(watch.expired());
}

TEST(TicketQueue, SaysWhetherThereAreTickets) {
  const auto queue = queue_of();
  EXPECT_FALSE(queue->has_tickets());
  const auto a = admit(queue, submission_of({{1}}));
  EXPECT_TRUE(queue->has_tickets());
  queue->stop();
  EXPECT_FALSE(queue->has_tickets());
}

TEST(TicketQueue, DepthIsKnownByModel) {
  const auto queue = queue_of(2);
  const auto a = admit(queue, submission_of({{1, 2}, {3}}));
  const auto b = admit(queue, testing::for_model(1, submission_of({{1, 2, 3, 4}})));
  EXPECT_EQ(queue->depths()[0].tickets, 2U);
  EXPECT_EQ(queue->depths()[0].tokens, 3U);
  EXPECT_EQ(queue->depths()[1].tokens, 4U);
  EXPECT_GT(queue->depths()[1].cost, queue->depths()[0].cost);
  EXPECT_EQ(queue->depth().tokens, 7U);
  a->fail(shutting_down_failure());
  EXPECT_EQ(queue->depths()[0].tickets, 0U);
  EXPECT_EQ(queue->depths()[0].cost, 0);
  EXPECT_EQ(queue->depths()[1].tickets, 1U);
}

}  // namespace
}  // namespace espalier::scheduler
