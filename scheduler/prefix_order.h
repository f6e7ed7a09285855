// The waiting tickets as the leaves of their prefix tree, from left to right: in lexicographic
// order of their ids, models and tenants apart.
//
// The tree itself is implied: the tickets below any of its nodes stand side by side, and what two
// tickets share is the least that neighbours between them share. So the ticket that shares most
// with a given one is next to it, and whoever walks outwards from a ticket meets the others in the
// order in which they share less and less. A tree with nodes would have to repair its edges, and
// what it sums up over its children, at each ticket that leaves; here a ticket's own ids are all
// there is.
//
// Entering takes O(log tickets) comparisons of ids, leaving O(1), both amortised.
//
// Thread contract: none; one thread at a time.
#pragma once

#include <cstddef>

#include "scheduler/waiting_ticket.h"

namespace espalier::scheduler {

enum class Side : uint8_t { kLeft, kRight };

class PrefixOrder {
 public:
  /// `ticket` stays where it is, and so do its ids, until remove().
  void add(WaitingTicket& ticket) { ticket.in_prefix_order = tickets_.insert(&ticket).first; }
  void remove(WaitingTicket& ticket) { tickets_.erase(ticket.in_prefix_order); }

  /// The next ticket of the same model and tenant, null if there is none.
  WaitingTicket* neighbour(const WaitingTicket& ticket, Side side) const;

 private:
  PrefixSet tickets_;
};

/// How many leading ids two tickets have in common.
size_t shared_tokens(const WaitingTicket& a, const WaitingTicket& b);

}  // namespace espalier::scheduler
