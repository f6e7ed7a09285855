#include "scheduler/ticket_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <stdexcept>
#include <thread>

#include "tests/unit/scheduler/request_fixture.h"

namespace espalier::scheduler {
namespace {

using testing::admit;
using ::testing::ElementsAre;
using testing::indices;
using testing::submission_of;
using testing::take;
using testing::Taken;
using namespace std::chrono_literals;

std::shared_ptr<TicketQueue> make_queue(size_t models = 1, size_t tickets_max = 100) {
  return std::make_shared<TicketQueue>(models, tickets_max);
}

Submission for_model(size_t model, Submission submission) {
  submission.model = model;
  return submission;
}

TEST(TicketQueue, GivesTicketsInOrderOfArrival) {
  const auto queue = make_queue();
  const auto a = admit(queue, submission_of({{1}, {2}}));
  const auto b = admit(queue, submission_of({{3}}));
  const Taken taken = take(*queue, 10);
  ASSERT_EQ(taken.tickets.size(), 3U);
  EXPECT_EQ(taken.tickets[0].request, a);
  EXPECT_EQ(taken.tickets[1].request, a);
  EXPECT_EQ(taken.tickets[2].request, b);
  EXPECT_THAT(indices(taken.tickets), ElementsAre(0, 1, 0));
}

TEST(TicketQueue, ARequestMaySpreadOverBatches) {
  const auto queue = make_queue();
  const auto request = admit(queue, submission_of({{1}, {2}, {3}, {4}, {5}}));
  EXPECT_THAT(indices(take(*queue, 2).tickets), ElementsAre(0, 1));
  EXPECT_EQ(queue->depth().tickets, 3U);
  EXPECT_THAT(indices(take(*queue, 2).tickets), ElementsAre(2, 3));
  EXPECT_THAT(indices(take(*queue, 2).tickets), ElementsAre(4));
  EXPECT_THAT(indices(take(*queue, 2).tickets), ElementsAre());
}

TEST(TicketQueue, AdmitsAllTicketsOfARequestOrNone) {
  const auto queue = make_queue(1, 3);
  EXPECT_NE(admit(queue, submission_of({{1}, {2}})), nullptr);
  const auto refused =
      std::make_shared<RequestState>(submission_of({{1}, {2}}), queue, Clock::now());
  EXPECT_EQ(queue->admit(refused), QueueAnswer::kFull);
  EXPECT_EQ(queue->depth().tickets, 2U);
  EXPECT_NE(admit(queue, submission_of({{1}})), nullptr);
  EXPECT_EQ(queue->depth().tickets, 3U);
  EXPECT_EQ(queue->open_requests().size(), 2U);
}

TEST(TicketQueue, CountsTicketsAndTokensThatWait) {
  const auto queue = make_queue();
  const auto request = admit(queue, submission_of({{1, 2, 3}, {4, 5}, {6}}));
  EXPECT_EQ(queue->depth().tokens, 6U);
  take(*queue, 1);
  EXPECT_EQ(queue->depth().tickets, 2U);
  EXPECT_EQ(queue->depth().tokens, 3U);
  request->fail(shutting_down_failure());
  EXPECT_EQ(queue->depth().tickets, 0U);
  EXPECT_EQ(queue->depth().tokens, 0U);
}

TEST(TicketQueue, ABatchHasOneModelAndTheLongestWaitDecidesWhich) {
  const auto queue = make_queue(2);
  const auto a = admit(queue, for_model(1, submission_of({{1}, {2}, {3}})));
  const auto b = admit(queue, for_model(0, submission_of({{4}})));
  const auto c = admit(queue, for_model(1, submission_of({{5}})));

  Taken taken = take(*queue, 2);  // model 1 has waited longest
  EXPECT_EQ(taken.tickets.front().request, a);
  taken = take(*queue, 2);  // it still has: the rest of a, then c, passing over b
  ASSERT_EQ(taken.tickets.size(), 2U);
  EXPECT_EQ(taken.tickets[0].request, a);
  EXPECT_EQ(taken.tickets[1].request, c);
  taken = take(*queue, 2);
  ASSERT_EQ(taken.tickets.size(), 1U);
  EXPECT_EQ(taken.tickets[0].request, b);
}

TEST(TicketQueue, AFloodForOneModelDoesNotStarveAnother) {
  const auto queue = make_queue(2, 1000);
  std::vector<std::shared_ptr<RequestState>> flood;
  flood.push_back(admit(queue, for_model(0, submission_of({{1}, {2}}))));
  const auto lone = admit(queue, for_model(1, submission_of({{9}})));
  for (int i = 0; i < 50; ++i) {
    flood.push_back(admit(queue, for_model(0, submission_of({{1}, {2}}))));
  }
  EXPECT_EQ(take(*queue, 2).tickets.front().request, flood[0]);
  EXPECT_EQ(take(*queue, 2).tickets.front().request, lone);
}

TEST(TicketQueue, ARequestThatEndsFreesItsPlaceWhereverItStands) {
  const auto queue = make_queue(1, 3);
  const auto a = admit(queue, submission_of({{1}}));
  const auto b = admit(queue, submission_of({{2}}));
  const auto c = admit(queue, submission_of({{3}}));
  EXPECT_TRUE(b->fail(shutting_down_failure()));
  EXPECT_EQ(queue->depth().tickets, 2U);
  EXPECT_NE(admit(queue, submission_of({{4}})), nullptr);
  const Taken taken = take(*queue, 2);
  ASSERT_EQ(taken.tickets.size(), 2U);
  EXPECT_EQ(taken.tickets[0].request, a);
  EXPECT_EQ(taken.tickets[1].request, c);
}

TEST(TicketQueue, ExpiredRequestsLeaveWithoutBeingTaken) {
  const auto queue = make_queue();
  Submission late = submission_of({{1}, {2}});
  const Clock::time_point now = Clock::now();
  late.deadline = now + 1s;
  const auto expired = admit(queue, late);
  const auto alive = admit(queue, submission_of({{3}}));
  const Taken taken = take(*queue, 10, now + 1s);
  EXPECT_THAT(taken.expired, ElementsAre(expired));
  ASSERT_EQ(taken.tickets.size(), 1U);
  EXPECT_EQ(taken.tickets[0].request, alive);
  EXPECT_EQ(queue->depth().tickets, 0U);
  EXPECT_EQ(queue->open_requests().size(), 2U);  // until somebody fails it
}

TEST(TicketQueue, DropsTheRestOfARequestThatExpiresBetweenItsBatches) {
  const auto queue = make_queue();
  Submission submission = submission_of({{1}, {2}, {3}});
  const Clock::time_point now = Clock::now();
  submission.deadline = now + 1h;
  const auto request = admit(queue, submission);
  EXPECT_THAT(indices(take(*queue, 1, now).tickets), ElementsAre(0));
  const Taken taken = take(*queue, 1, now + 2h);
  EXPECT_TRUE(taken.tickets.empty());
  EXPECT_THAT(taken.expired, ElementsAre(request));
}

TEST(TicketQueue, HandsOverWhatLeftItWhenTheChooserThrows) {
  struct Thrower final : TicketChooser {
    bool fits(const Ticket&) const override { return true; }
    void add(const Ticket& ticket) override {
      if (ticket.index == 1) {
        throw std::runtime_error("no");
      }
    }
  };
  const auto queue = make_queue();
  const auto request = admit(queue, submission_of({{1}, {2}, {3}}));
  Thrower thrower;
  Taken taken;
  EXPECT_THROW(queue->take(thrower, Clock::now(), taken.tickets, taken.expired),
               std::runtime_error);
  EXPECT_THAT(indices(taken.tickets), ElementsAre(0, 1));
  EXPECT_EQ(queue->depth().tickets, 1U);
}

TEST(TicketQueue, AdmitsNothingOnceClosedButGivesWhatItHas) {
  const auto queue = make_queue();
  const auto request = admit(queue, submission_of({{1}}));
  queue->close();
  const auto late = std::make_shared<RequestState>(submission_of({{2}}), queue, Clock::now());
  EXPECT_EQ(queue->admit(late), QueueAnswer::kClosed);
  EXPECT_TRUE(queue->wait_for_tickets());
  EXPECT_EQ(take(*queue, 1).tickets.size(), 1U);
}

TEST(TicketQueue, WakesTheWaiterForATicketAndForAStop) {
  const auto queue = make_queue();
  auto first = std::async(std::launch::async, [&] { return queue->wait_for_tickets(); });
  const auto request = admit(queue, submission_of({{1}}));
  EXPECT_TRUE(first.get());
  take(*queue, 1);
  auto second = std::async(std::launch::async, [&] { return queue->wait_for_tickets(); });
  queue->stop();
  EXPECT_FALSE(second.get());
}

TEST(TicketQueue, WaitsUntilAllRequestsHaveEndedNotOnlyLeftTheQueue) {
  const auto queue = make_queue();
  EXPECT_TRUE(queue->wait_until_all_ended(0ms));
  const auto request = admit(queue, submission_of({{1}}));
  take(*queue, 1);
  EXPECT_FALSE(queue->wait_until_all_ended(1ms));
  auto waiter = std::async(std::launch::async, [&] {
    return queue->wait_until_all_ended(std::chrono::milliseconds::max());
  });
  request->fulfil(0, {1.0F}, Clock::now());
  EXPECT_TRUE(waiter.get());
}

TEST(TicketQueue, LetsGoOfARequestThatHasEnded) {
  const auto queue = make_queue();
  auto request = admit(queue, submission_of({{1}}));
  const std::weak_ptr<RequestState> watch = request;
  request->fail(shutting_down_failure());
  request.reset();
  EXPECT_TRUE(watch.expired());
}

/// Passes over tickets of more than one token.
class ShortChooser final : public TicketChooser {
 public:
  explicit ShortChooser(size_t tickets_max) : left_(tickets_max) {}
  bool passes_over(const Ticket& ticket) const override { return ticket.token_ids().size() > 1; }
  bool fits(const Ticket&) const override { return left_ > 0; }
  void add(const Ticket&) override { --left_; }

 private:
  size_t left_;
};

TEST(TicketQueue, WhatIsPassedOverKeepsItsPlaceWithAllThatFollowsItInItsRequest) {
  const auto queue = make_queue();
  const auto a = admit(queue, submission_of({{1}, {2, 2}, {3}}));
  const auto b = admit(queue, submission_of({{4}}));
  Taken taken;
  ShortChooser chooser(10);
  queue->take(chooser, Clock::now(), taken.tickets, taken.expired);
  ASSERT_EQ(taken.tickets.size(), 2U);
  EXPECT_EQ(taken.tickets[0].request, a);
  EXPECT_EQ(taken.tickets[1].request, b);
  EXPECT_EQ(queue->depth().tokens, 3U);
  EXPECT_THAT(indices(take(*queue, 10).tickets), ElementsAre(1, 2));
}

TEST(TicketQueue, AFullBatchIsClosedThoughTheNextTicketWouldBePassedOver) {
  const auto queue = make_queue();
  const auto a = admit(queue, submission_of({{1, 1}}));
  const auto b = admit(queue, submission_of({{2}, {3}, {4}}));
  const auto c = admit(queue, submission_of({{5}}));
  Taken taken;
  ShortChooser chooser(2);
  queue->take(chooser, Clock::now(), taken.tickets, taken.expired);
  EXPECT_THAT(indices(taken.tickets), ElementsAre(0, 1));
  EXPECT_EQ(taken.tickets[0].request, b);
  EXPECT_EQ(take(*queue, 1).tickets[0].request, a);
}

TEST(TicketQueue, ABatchIsSeededByTheFirstTicketThatIsNotPassedOver) {
  const auto queue = make_queue(2);
  const auto a = admit(queue, for_model(0, submission_of({{1, 1}})));
  const auto b = admit(queue, for_model(1, submission_of({{2}})));
  const auto c = admit(queue, for_model(0, submission_of({{3}})));
  const auto d = admit(queue, for_model(1, submission_of({{4}})));
  Taken taken;
  ShortChooser chooser(10);
  queue->take(chooser, Clock::now(), taken.tickets, taken.expired);
  ASSERT_EQ(taken.tickets.size(), 2U);
  EXPECT_EQ(taken.tickets[0].request, b);
  EXPECT_EQ(taken.tickets[1].request, d);
}

TEST(TicketQueue, TicketsThatArePutBackStandWhereTheyStood) {
  const auto queue = make_queue(2);
  const auto a = admit(queue, submission_of({{1}, {2}}));
  const auto b = admit(queue, submission_of({{3, 3}, {4}, {5}}));
  const auto c = admit(queue, submission_of({{6}}));
  const Taken first = take(*queue, 1);  // runs
  const Taken planned = take(*queue, 3);
  EXPECT_THAT(indices(planned.tickets), ElementsAre(1, 0, 1));
  queue->put_back(planned.tickets);
  EXPECT_EQ(queue->depth().tickets, 5U);
  EXPECT_EQ(queue->depth().tokens, 6U);
  const Taken again = take(*queue, 10);
  EXPECT_THAT(indices(again.tickets), ElementsAre(1, 0, 1, 2, 0));
  EXPECT_EQ(again.tickets[0].request, a);
  EXPECT_EQ(again.tickets[1].request, b);
  EXPECT_EQ(again.tickets[4].request, c);
}

TEST(TicketQueue, TicketsOfARequestThatHasEndedAreNotPutBack) {
  const auto queue = make_queue();
  const auto a = admit(queue, submission_of({{1}, {2}}));
  const auto b = admit(queue, submission_of({{3}}));
  const Taken taken = take(*queue, 3);
  a->fail(shutting_down_failure());
  queue->put_back(taken.tickets);
  EXPECT_EQ(queue->depth().tickets, 1U);
  EXPECT_EQ(take(*queue, 3).tickets[0].request, b);
}

TEST(TicketQueue, AQueueFullerThanItsLimitAdmitsNothing) {
  const auto queue = make_queue(1, 2);
  const auto a = admit(queue, submission_of({{1}, {2}}));
  const Taken taken = take(*queue, 2);
  const auto b = admit(queue, submission_of({{3}}));
  queue->put_back(taken.tickets);
  EXPECT_EQ(queue->depth().tickets, 3U);
  EXPECT_EQ(admit(queue, submission_of({{4}})), nullptr);
}

TEST(TicketQueueDeathTest, TicketsArePutBackInTheReverseOfTheirTaking) {
  const auto queue = make_queue();
  const auto a = admit(queue, submission_of({{1}, {2}}));
  const Taken first = take(*queue, 1);
  const Taken second = take(*queue, 1);
  EXPECT_DEATH(queue->put_back(first.tickets), "put back out of turn");
}

TEST(TicketQueue, SaysWhetherThereAreTickets) {
  const auto queue = make_queue();
  EXPECT_FALSE(queue->has_tickets());
  const auto a = admit(queue, submission_of({{1}}));
  EXPECT_TRUE(queue->has_tickets());
  queue->stop();
  EXPECT_FALSE(queue->has_tickets());
}

}  // namespace
}  // namespace espalier::scheduler
