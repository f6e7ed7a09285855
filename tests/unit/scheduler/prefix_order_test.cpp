#include "scheduler/prefix_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <vector>

namespace espalier::scheduler {
namespace {

struct Entry {
  std::vector<uint32_t> ids;
  WaitingTicket ticket;
};

class PrefixOrderTest : public ::testing::Test {
 protected:
  WaitingTicket& add(std::vector<uint32_t> ids, uint64_t tenant = 0, uint32_t model = 0) {
    Entry& entry = entries_.emplace_back();
    entry.ids = std::move(ids);
    entry.ticket.ids = entry.ids;
    entry.ticket.tenant = tenant;
    entry.ticket.model = model;
    entry.ticket.arrival = entries_.size();
    order_.add(entry.ticket);
    return entry.ticket;
  }

  std::deque<Entry> entries_;
  PrefixOrder order_;
};

TEST_F(PrefixOrderTest, NeighboursAreThoseThatShareMost) {
  WaitingTicket& a = add({1, 2, 3});
  WaitingTicket& b = add({9});
  WaitingTicket& c = add({1, 2, 4});
  WaitingTicket& d = add({1, 2});
  EXPECT_EQ(order_.neighbour(d, Side::kLeft), nullptr);
  EXPECT_EQ(order_.neighbour(d, Side::kRight), &a);
  EXPECT_EQ(order_.neighbour(a, Side::kRight), &c);
  EXPECT_EQ(order_.neighbour(c, Side::kRight), &b);
  EXPECT_EQ(order_.neighbour(b, Side::kRight), nullptr);
  EXPECT_EQ(order_.neighbour(b, Side::kLeft), &c);
  order_.remove(c);
  EXPECT_EQ(order_.neighbour(a, Side::kRight), &b);
}

TEST_F(PrefixOrderTest, IdenticalTextsStandInTheOrderOfTheirArrival) {
  WaitingTicket& a = add({1, 2});
  WaitingTicket& b = add({1, 2});
  WaitingTicket& c = add({1, 2});
  EXPECT_EQ(order_.neighbour(a, Side::kRight), &b);
  EXPECT_EQ(order_.neighbour(b, Side::kRight), &c);
}

TEST_F(PrefixOrderTest, TenantsAndModelsStandApart) {
  WaitingTicket& a = add({1, 2}, 1, 0);
  WaitingTicket& b = add({1, 2}, 2, 0);
  WaitingTicket& c = add({1, 2}, 1, 1);
  for (const WaitingTicket* ticket : {&a, &b, &c}) {
    EXPECT_EQ(order_.neighbour(*ticket, Side::kLeft), nullptr);
    EXPECT_EQ(order_.neighbour(*ticket, Side::kRight), nullptr);
  }
}

TEST_F(PrefixOrderTest, ANeighbourSharesAsMuchAsAnyTicketDoes) {
  std::mt19937 random(1);
  for (int i = 0; i < 400; ++i) {
    std::vector<uint32_t> ids(1 + random() % 12);
    for (uint32_t& id : ids) id = static_cast<uint32_t>(random() % 2);
    add(std::move(ids), random() % 2);
    if (i % 3 == 2) {
      Entry& gone = entries_[random() % entries_.size()];
      if (gone.ticket.model == 0) {
        order_.remove(gone.ticket);
        gone.ticket.model = 1;  // marks it as gone
      }
    }
  }
  for (const Entry& entry : entries_) {
    if (entry.ticket.model != 0) continue;
    size_t most = 0;
    for (const Entry& other : entries_) {
      if (&other == &entry || other.ticket.model != 0 ||
          other.ticket.tenant != entry.ticket.tenant) {
        continue;
      }
      const auto [end, ignored] =
          std::mismatch(entry.ids.begin(), entry.ids.end(), other.ids.begin(), other.ids.end());
      most = std::max(most, static_cast<size_t>(end - entry.ids.begin()));
    }
    size_t shared = 0;
    for (const Side side : {Side::kLeft, Side::kRight}) {
      if (const WaitingTicket* const next = order_.neighbour(entry.ticket, side)) {
        shared = std::max(shared, shared_tokens(entry.ticket, *next));
      }
    }
    EXPECT_EQ(shared, most);
  }
}

}  // namespace
}  // namespace espalier::scheduler
