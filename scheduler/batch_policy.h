// Which waiting tickets make the next batch: a function of what waits, the limits, the cost model
// and the clock, and of nothing else.
//
// Models take turns (scheduler/turn_order.h); of the one whose turn it is:
//
// 1. Light clients' tickets, by turn, up to half of the batch: who asks for little is served in the
//    next batch, whatever others have sent.
// 2. The ticket whose turn it is. With it, as long as there are any, the tickets that share most
//    with the batch: what a ticket would compute alone and does not compute here is what its coming
//    along saves, and of two tickets the one that saves more leaves the batch cheaper against
//    another batch for it. Nobody comes along, out of turn, who shares less than an eighth of its
//    tokens, or who would overtake the next one in turn by more than that one may be overtaken
//    (scheduler/turn_order.h). Where a batch is one trie, the same text again always comes along,
//    whatever the budgets: it adds nothing.
// 3. Again from 2 until the ticket whose turn it is does not fit.
//
// The first ticket always fits, so that one larger than a batch runs (alone). Then a ticket fits
// while the batch keeps within its compact rows, full rows and sequences, and, by the cost model,
// its time. A ticket that shares at least half of its tokens may stretch that time, but not before
// the ticket in turn has come: in a batch of its own it would compute the shared half again.
//
// Thread contract: none; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "scheduler/batch_budget.h"
#include "scheduler/cost_model.h"
#include "scheduler/plan_builder.h"
#include "scheduler/scheduler.h"
#include "scheduler/ticket.h"
#include "scheduler/waiting_index.h"

namespace espalier::scheduler {

/// The rules of turns under `limits`.
TurnRules turn_rules(const SchedulerLimits& limits, size_t models);

struct Choice {
  std::vector<Ticket> tickets;
  std::vector<std::shared_ptr<RequestState>> expired;  // met on the way: their deadlines are over
  size_t model = 0;
  double least_turn = 0;    // of `tickets`
  double largest_turn = 0;  // likewise
  bool interlude = false;
  BatchClosed closed = BatchClosed::kQueueEmpty;
  /// The ticket in turn found no room because light clients had come first; it must not happen to
  /// it again.
  bool owes_turn = false;

  void clear();
};

class BatchPolicy {
 public:
  /// Tickets that are chosen are added to `builder`, empty before and outliving the policy.
  explicit BatchPolicy(PlanBuilder& builder) : builder_(builder) {}

  /// `coefficients` by model.
  void choose(const WaitingIndex& index, const BatchRules& rules,
              const std::vector<CostCoefficients>& coefficients, Clock::time_point now,
              Choice& choice);

 private:
  /// A ticket that may come along for what it shares.
  struct Neighbour {
    bool twin;      // of a ticket of the batch: the same ids
    size_t shared;  // at least so many tokens with the batch
    WaitingTicket* ticket;
    Side side;  // of the batch's ticket that it was reached from: further ones are there
  };

  std::vector<size_t> models_by_turn() const;
  void take_light();
  void take_in_turn();
  void take_neighbours(TurnCursor& cursor);
  bool may_come_along(const Neighbour& neighbour, TurnCursor& cursor) const;
  std::optional<BatchClosed> refusal_of(const WaitingTicket& ticket, double share) const;
  bool still_wanted(const WaitingTicket& ticket);
  void take(WaitingTicket& ticket);
  void push_neighbour(const WaitingTicket& ticket, Side side, size_t shared_max);
  TurnCursor cursor(const FlowSet& flows) const;

  PlanBuilder& builder_;
  std::vector<Neighbour> neighbours_;  // a heap, most shared first

  // Of the choice being made.
  const WaitingIndex* index_ = nullptr;
  const BatchRules* rules_ = nullptr;
  CostCoefficients coefficients_;
  Clock::time_point now_;
  Choice* choice_ = nullptr;
  uint64_t round_ = 0;
  size_t dismissals_left_ = 0;
};

}  // namespace espalier::scheduler
