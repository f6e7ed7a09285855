// The fleet's router in the simulator: who gets a request, and what routing by query is worth.

#include "bench/scheduler_sim/replica_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <vector>

#include "bench/scheduler_sim/client_spec.h"
#include "bench/scheduler_sim/random_stream.h"
#include "bench/scheduler_sim/simulation.h"
#include "bench/scheduler_sim/trace.h"

namespace espalier::sim::testing {
namespace {

constexpr uint64_t kKeys = 3000;

/// Where each of kKeys keys goes in an idle fleet.
std::vector<size_t> homes(size_t replicas) {
  ReplicaChoice choice({Balance::kAffinity, 1.5}, replicas);
  std::vector<size_t> homes;
  for (uint64_t key = 0; key < kKeys; ++key) {
    homes.push_back(choice.choose(key));
    choice.ended(homes.back());
  }
  return homes;
}

TEST(ReplicaChoice, TakesTurns) {
  ReplicaChoice choice({Balance::kRoundRobin, 1.5}, 3);
  for (size_t i = 0; i < 9; ++i) EXPECT_EQ(choice.choose(7), i % 3);
}

TEST(ReplicaChoice, TakesTheReplicaWithTheFewestRequests) {
  ReplicaChoice choice({Balance::kLeastRequests, 1.5}, 3);
  std::vector<size_t> chosen;
  for (int i = 0; i < 3; ++i) chosen.push_back(choice.choose(7));
  EXPECT_EQ(std::set<size_t>(chosen.begin(), chosen.end()).size(), 3U);
  choice.ended(chosen[1]);
  EXPECT_EQ(choice.choose(7), chosen[1]);
}

TEST(ReplicaChoice, SpreadsKeysEvenly) {
  for (const size_t replicas : {1U, 2U, 3U, 7U}) {
    const auto all = homes(replicas);
    for (size_t r = 0; r < replicas; ++r) {
      const double share = static_cast<double>(std::ranges::count(all, r)) / kKeys;
      EXPECT_NEAR(share, 1.0 / static_cast<double>(replicas), 0.03) << r << " of " << replicas;
    }
  }
}

TEST(ReplicaChoice, MovesOnlyTheKeysThatANewReplicaGets) {
  const auto before = homes(3);
  const auto after = homes(4);
  size_t moved = 0;
  for (size_t key = 0; key < kKeys; ++key) {
    if (before[key] == after[key]) continue;
    EXPECT_EQ(after[key], 3U);
    ++moved;
  }
  EXPECT_NEAR(static_cast<double>(moved) / kKeys, 0.25, 0.03);
}

TEST(ReplicaChoice, BoundsTheLoadOfAHotKey) {
  for (const double bound : {1.0, 1.25, 2.0}) {
    constexpr size_t kReplicas = 5;
    ReplicaChoice choice({Balance::kAffinity, bound}, kReplicas);
    std::vector<size_t> load(kReplicas);
    for (size_t sent = 1; sent <= 500; ++sent) {
      ++load[choice.choose(7)];
      const double most = std::ceil(bound * static_cast<double>(sent) / kReplicas);
      ASSERT_LE(static_cast<double>(std::ranges::max(load)), most) << bound << ", " << sent;
    }
    // No further than it must: the last replicas in the key's order get what is left.
    const auto busy = static_cast<double>(std::ranges::count_if(load, [](size_t l) { return l; }));
    EXPECT_EQ(busy, std::ceil(kReplicas / bound)) << bound;
  }
}

TEST(ReplicaChoice, WithoutAKeyLooksAtTheLoad) {
  ReplicaChoice choice({Balance::kAffinity, 1.5}, 2);
  const size_t first = choice.choose(std::nullopt);
  EXPECT_NE(choice.choose(std::nullopt), first);
}

double rows_of(Balance balance, const Trace& trace) {
  SimulationSettings settings;
  settings.replicas = 3;
  settings.balance.balance = balance;
  double rows = 0;
  for (const BatchRecord& batch : simulate(trace, settings, nullptr).batches) rows += batch.rows;
  return rows;
}

TEST(ReplicaChoice, PagesOfAQueryMeetByAffinity) {
  const auto pages = parse_client_spec("rerank,load=2,texts=3,pages=8,query=250,own=60,clients=20");
  const Trace trace = make_trace({pages}, 60, 1);
  EXPECT_LT(rows_of(Balance::kAffinity, trace), 0.85 * rows_of(Balance::kRoundRobin, trace));
  // Nothing to gain where each request has a query of its own.
  const auto alone = parse_client_spec("rerank,load=2,texts=24,query=250,own=60,clients=20");
  const Trace other = make_trace({alone}, 60, 1);
  EXPECT_NEAR(rows_of(Balance::kAffinity, other) / rows_of(Balance::kRoundRobin, other), 1, 0.02);
}

TEST(ReplicaChoice, PagesHaveTheSameQueryAndOtherTexts) {
  const Trace trace = make_trace({parse_client_spec("rerank,load=1,pages=4,query=20")}, 10, 1);
  ASSERT_GE(trace.arrivals.size(), 8U);
  ASSERT_EQ(trace.arrivals.size() % 4, 0U);
  const auto first = submission_of(trace, trace.arrivals[0]).sequences.at(0).token_ids;
  const auto second = submission_of(trace, trace.arrivals[1]).sequences.at(0).token_ids;
  const auto parted = std::ranges::mismatch(first, second).in1 - first.begin();
  EXPECT_GE(parted, 60 + 10);
  EXPECT_LE(parted, 60 + 30);
  EXPECT_EQ(affinity_key(trace, trace.arrivals[0]), affinity_key(trace, trace.arrivals[3]));
  EXPECT_NE(affinity_key(trace, trace.arrivals[0]), affinity_key(trace, trace.arrivals[4]));
}

TEST(ReplicaChoice, ClosedClientsHaveNoPages) {
  EXPECT_THROW(parse_client_spec("rerank,arrivals=closed,pages=2"), std::invalid_argument);
}

}  // namespace
}  // namespace espalier::sim::testing
