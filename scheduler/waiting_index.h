// The waiting tickets in the two orders that a batch is chosen by: whose turn it is, and who shares
// prefixes with whom. Kept up to date as tickets come and leave, so that choosing a batch takes
// time in the batch, not in the queue.
//
// Thread contract: none; one thread at a time (the queue's lock).
#pragma once

#include <utility>
#include <vector>

#include "scheduler/pass_work.h"
#include "scheduler/prefix_order.h"
#include "scheduler/turn_order.h"
#include "scheduler/waiting_ticket.h"

namespace espalier::scheduler {

class WaitingIndex {
 public:
  /// `costs` by model.
  WaitingIndex(const TurnRules& rules, std::vector<PassCosts> costs)
      : costs_(std::move(costs)), turns_(rules) {}

  /// `ticket`, whose request, ids, wanted, model, tenant and arrival are set, stays where it is
  /// until remove().
  void add(WaitingTicket& ticket, uint64_t client, double weight) {
    ticket.cost = cost_of(ticket);
    prefixes_.add(ticket);
    try {
      turns_.add(ticket, client, weight);
    } catch (...) {
      prefixes_.remove(ticket);
      throw;
    }
    ticket.waiting = true;
  }
  double cost_of(const WaitingTicket& ticket) const {
    return costs_[ticket.model].of_sequence(ticket.ids.size(),
                                            wanted_rows(ticket.wanted, ticket.ids.size()));
  }
  void remove(WaitingTicket& ticket, bool dispatched) {
    ticket.waiting = false;
    turns_.remove(ticket, dispatched);
    prefixes_.remove(ticket);
  }
  /// `choice` was dispatched, its tickets removed.
  template <typename Choice>
  void advance(const Choice& choice) {
    turns_.advance(choice.model, choice.least_turn, choice.largest_turn);
    if (choice.interlude) {
      turns_.count_interlude(choice.model);
    } else {
      turns_.count_batch(choice.model, choice.owes_turn);
    }
  }

  /// A number for a choice that looks at the tickets (WaitingTicket::seen_in_round).
  uint64_t next_round() const { return ++rounds_; }

  const TurnOrder& turns() const { return turns_; }
  const PrefixOrder& prefixes() const { return prefixes_; }

 private:
  const std::vector<PassCosts> costs_;
  TurnOrder turns_;
  PrefixOrder prefixes_;
  mutable uint64_t rounds_ = 0;
};

}  // namespace espalier::scheduler
