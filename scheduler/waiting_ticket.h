// A ticket that waits, and its places in the orders of the waiting queue. Plain data, owned by the
// queue and guarded by its lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "scheduler/request.h"

namespace espalier::scheduler {

class RequestState;
struct WaitingRequest;
struct WaitingTicket;
struct Flow;

/// Lexicographic by model, tenant and ids, then by arrival. The longest common prefixes of a ticket
/// are with its neighbours in it.
struct ByPrefix {
  bool operator()(const WaitingTicket* a, const WaitingTicket* b) const;
};
using PrefixSet = std::set<WaitingTicket*, ByPrefix>;
using TicketLine = std::list<WaitingTicket*>;

struct WaitingTicket {
  WaitingRequest* request = nullptr;
  size_t index = 0;  // of the sequence within its request
  std::span<const uint32_t> ids;
  WantedRows wanted = WantedRows::kLast;
  uint64_t tenant = 0;
  uint32_t model = 0;
  uint64_t arrival = 0;  // counted; unique

  // Set by TurnOrder.
  double cost = 0;                    // alone, in rows
  double turn = 0;                    // least first
  double may_be_overtaken_until = 0;  // by tickets whose turn is no later than this
  Flow* flow = nullptr;
  TicketLine::iterator in_line;

  // Set by PrefixOrder.
  PrefixSet::iterator in_prefix_order;

  bool waiting = false;        // it stands in both orders
  uint64_t seen_in_round = 0;  // the last choice that took it, or found that nobody wants it
};

/// By turn, then by arrival.
inline bool comes_before(const WaitingTicket& a, const WaitingTicket& b) {
  return a.turn != b.turn ? a.turn < b.turn : a.arrival < b.arrival;
}

/// A request that has not ended: it is waited for, whether its tickets wait or are in batches.
struct WaitingRequest {
  std::shared_ptr<RequestState> state;
  std::vector<WaitingTicket> tickets;  // by sequence
};

}  // namespace espalier::scheduler
