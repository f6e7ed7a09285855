#include "scheduler/turn_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <vector>

namespace espalier::scheduler {
namespace {

using ::testing::ElementsAre;

class TurnOrderTest : public ::testing::Test {
 protected:
  static constexpr size_t kShort = 10;

  static TurnRules rules() {
    TurnRules rules;
    rules.models = 2;
    rules.short_tokens = kShort;
    rules.light_cost = 20;
    rules.batch_cost = 100;
    return rules;
  }

  WaitingTicket& add(uint64_t client, size_t tokens, double weight = 1, uint32_t model = 0) {
    texts_.emplace_back(tokens);
    WaitingTicket& ticket = tickets_.emplace_back();
    ticket.ids = texts_.back();
    ticket.model = model;
    ticket.cost = static_cast<double>(tokens);
    ticket.arrival = tickets_.size();
    order_.add(ticket, client, weight);
    return ticket;
  }

  /// The arrivals of the tickets by turn.
  std::vector<uint64_t> by_turn(size_t tokens_max = SIZE_MAX) {
    std::vector<uint64_t> arrivals;
    TurnCursor cursor(order_.flows(0).all, ++round_, tokens_max, kShort);
    while (WaitingTicket* const ticket = cursor.peek()) {
      arrivals.push_back(ticket->arrival);
      ticket->seen_in_round = round_;
    }
    return arrivals;
  }

  std::deque<std::vector<uint32_t>> texts_;
  std::deque<WaitingTicket> tickets_;
  TurnOrder order_{rules()};
  uint64_t round_ = 0;
};

TEST_F(TurnOrderTest, WithinAClientFirstInFirstOut) {
  for (const size_t tokens : {5, 50, 1, 7}) add(1, tokens);
  EXPECT_THAT(by_turn(), ElementsAre(1, 2, 3, 4));
}

TEST_F(TurnOrderTest, ClientsTakeTurnsByWhatTheyHaveAskedFor) {
  add(1, 10);  // turns 10, 20, 30
  add(1, 10);
  add(1, 10);
  add(2, 15);  // turns 15, 31
  add(2, 16);
  EXPECT_THAT(by_turn(), ElementsAre(1, 4, 2, 3, 5));
}

TEST_F(TurnOrderTest, AWeightCountsAsSoManyClients) {
  for (int i = 0; i < 4; ++i) add(1, 10, 2);
  for (int i = 0; i < 4; ++i) add(2, 10, 1);
  EXPECT_THAT(by_turn(), ElementsAre(1, 2, 5, 3, 4, 6, 7, 8));
}

TEST_F(TurnOrderTest, WhoComesLateStartsFromTheTurnThatIsServed) {
  for (int i = 0; i < 5; ++i) add(1, 10);
  for (int i = 0; i < 3; ++i) order_.remove(tickets_[i], true);
  order_.advance(0, 30, 30);
  add(2, 5);
  EXPECT_EQ(tickets_.back().turn, 35);
  EXPECT_THAT(by_turn(), ElementsAre(6, 4, 5));
}

TEST_F(TurnOrderTest, WhatWasGivenUpIsNotHeldAgainstAClient) {
  for (int i = 0; i < 5; ++i) add(1, 10);
  order_.remove(tickets_[0], true);
  for (int i = 1; i < 5; ++i) order_.remove(tickets_[i], false);
  EXPECT_EQ(add(1, 10).turn, 20);
}

TEST_F(TurnOrderTest, NorIsItWhileOthersOfItWait) {
  for (int i = 0; i < 5; ++i) add(1, 10);
  for (int i = 2; i < 5; ++i) order_.remove(tickets_[i], false);
  EXPECT_EQ(add(1, 10).turn, 30);
}

TEST_F(TurnOrderTest, OfALightWeightLessMayWaitToBeLight) {
  add(1, 15, 0.5);
  EXPECT_EQ(order_.flows(0).light.size(), 0U);
  add(2, 10, 0.5);
  add(3, 20, 5);
  EXPECT_EQ(order_.flows(0).light.size(), 2U);
}

TEST_F(TurnOrderTest, AClientIsLightWhileLittleOfItWaits) {
  add(1, 15);
  EXPECT_EQ(order_.flows(0).light.size(), 1U);
  add(1, 15);
  EXPECT_EQ(order_.flows(0).light.size(), 0U);
  EXPECT_EQ(order_.flows(0).all.size(), 1U);
  order_.remove(tickets_[0], true);
  EXPECT_EQ(order_.flows(0).light.size(), 1U);
  order_.remove(tickets_[1], true);
  EXPECT_EQ(order_.flows(0).all.size(), 0U);
}

TEST_F(TurnOrderTest, ATicketMayBeOvertakenByWhatStoodBeforeItOrBySomeBatches) {
  EXPECT_EQ(add(1, 10).may_be_overtaken_until, 10 + 1600);
  for (int i = 0; i < 1000; ++i) add(1, 10);
  EXPECT_EQ(tickets_.back().turn, 10010);
  EXPECT_EQ(tickets_.back().may_be_overtaken_until, 2 * 10010);
}

TEST_F(TurnOrderTest, TooLongTicketsArePassedOver) {
  add(1, 50);
  add(1, 5);
  add(2, 11);
  add(2, 8);
  EXPECT_THAT(by_turn(10), ElementsAre(4, 2));
  EXPECT_THAT(by_turn(8), ElementsAre(4, 2));
  EXPECT_THAT(by_turn(11), ElementsAre(3, 4, 2));
  EXPECT_THAT(by_turn(4), ElementsAre());
}

TEST_F(TurnOrderTest, AShortOneIsFoundBehindAnyNumberOfLongOnes) {
  for (int i = 0; i < 5000; ++i) add(1, 50);
  add(1, 5);
  EXPECT_THAT(by_turn(10), ElementsAre(5001));
}

TEST_F(TurnOrderTest, NobodyPaysForWhatAnIdleMachineHasGiven) {
  for (int i = 0; i < 5; ++i) add(1, 10);  // alone: turns 10 … 50, one batch
  for (int i = 0; i < 5; ++i) order_.remove(tickets_[i], true);
  order_.advance(0, 10, 50);
  EXPECT_EQ(add(1, 10).turn, 60);
  EXPECT_EQ(add(2, 10).turn, 60);
}

TEST_F(TurnOrderTest, TheVirtualTimeStopsAtWhatStillWaits) {
  add(1, 10);
  add(2, 50);
  order_.remove(tickets_[1], true);  // went first, as light clients and interludes may
  order_.advance(0, 50, 50);
  EXPECT_EQ(add(3, 5).turn, 15);
}

TEST_F(TurnOrderTest, ClientsThatHaveGoneAreForgotten) {
  for (uint64_t client = 0; client < 10'000; ++client) {
    WaitingTicket& ticket = add(client, 1);
    order_.remove(ticket, true);
    order_.advance(0, ticket.turn, ticket.turn);
  }
  EXPECT_LE(order_.clients(), 64U);
}

TEST_F(TurnOrderTest, BackloggedClientsAreServedInProportionToTheirWeights) {
  std::mt19937 random(1);
  const std::map<uint64_t, double> weights = {{1, 1}, {2, 1}, {3, 2}, {4, 0.5}};
  for (const auto& [client, weight] : weights) {
    for (int i = 0; i < 2000; ++i) add(client, 1 + random() % 20, weight);
  }
  std::map<const Flow*, double> served;
  double all = 0;
  TurnCursor cursor(order_.flows(0).all, ++round_, SIZE_MAX, kShort);
  while (all < 10'000) {
    WaitingTicket* const ticket = cursor.peek();
    ticket->seen_in_round = round_;
    served[ticket->flow] += ticket->cost;
    all += ticket->cost;
  }
  for (const auto& [flow, cost] : served) {
    EXPECT_NEAR(cost, all * flow->weight / 4.5, 40);
  }
}

}  // namespace
}  // namespace espalier::scheduler
