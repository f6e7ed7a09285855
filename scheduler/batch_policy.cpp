#include "scheduler/batch_policy.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "scheduler/pending_request.h"

namespace espalier::scheduler {
namespace {

/// Of a ticket's tokens that it must share to come along out of turn: less is no reason to make
/// others wait.
constexpr size_t kShareDivisor = 8;
/// Tickets that are looked at and dismissed, in a choice: it must not take time in the queue.
constexpr size_t kDismissedMax = 1024;
/// Share of a batch's budget that light clients may use up before the ticket in turn.
constexpr double kLightShare = 0.5;
/// A client is light with so many batches waiting.
constexpr double kLightBatches = 1.0 / 8;

template <typename Neighbour>
bool shares_less(const Neighbour& a, const Neighbour& b) {
  if (a.twin != b.twin) return b.twin;
  if (a.shared != b.shared) return a.shared < b.shared;
  return comes_before(*b.ticket, *a.ticket);
}

}  // namespace

TurnRules turn_rules(const SchedulerLimits& limits, size_t models) {
  TurnRules rules;
  rules.models = models;
  rules.short_tokens = limits.interludes.always_short_tokens;
  rules.batch_cost = static_cast<double>(limits.batch_rows_max);
  rules.light_cost = kLightBatches * rules.batch_cost;
  return rules;
}

void Choice::clear() {
  tickets.clear();
  expired.clear();
  least_turn = std::numeric_limits<double>::infinity();
  largest_turn = 0;
  interlude = false;
  closed = BatchClosed::kQueueEmpty;
  owes_turn = false;
}

void BatchPolicy::choose(const WaitingIndex& index, const BatchRules& rules,
                         const std::vector<CostCoefficients>& coefficients, Clock::time_point now,
                         Choice& choice) {
  index_ = &index;
  rules_ = &rules;
  now_ = now;
  choice_ = &choice;
  round_ = index.next_round();
  dismissals_left_ = kDismissedMax;
  neighbours_.clear();
  choice.clear();
  choice.interlude = rules.interlude;
  for (const size_t model : models_by_turn()) {
    choice.model = model;
    coefficients_ = coefficients[model];
    // An interlude leaves the turn that is owed.
    if (rules.interlude || !index.turns().flows(model).owes_turn) take_light();
    take_in_turn();
    if (!choice.tickets.empty()) return;
  }
}

/// Those that may run and have tickets: those that were served longest ago first, those that never
/// were by the age of what they have waiting.
std::vector<size_t> BatchPolicy::models_by_turn() const {
  const TurnOrder& turns = index_->turns();
  std::vector<size_t> models;
  for (size_t m = 0; m < turns.models(); ++m) {
    const bool allowed = rules_->models == nullptr || (*rules_->models)[m];
    if (allowed && !turns.flows(m).all.empty()) models.push_back(m);
  }
  const auto place = [&](size_t m) {
    const ModelFlows& flows = turns.flows(m);
    return std::pair(rules_->interlude ? flows.last_interlude : flows.last_batch,
                     (*flows.all.begin())->head()->arrival);
  };
  std::sort(models.begin(), models.end(), [&](size_t a, size_t b) { return place(a) < place(b); });
  return models;
}

TurnCursor BatchPolicy::cursor(const FlowSet& flows) const {
  return {flows, round_, rules_->ticket_tokens_max, index_->turns().rules().short_tokens};
}

void BatchPolicy::take_light() {
  TurnCursor light = cursor(index_->turns().flows(choice_->model).light);
  while (WaitingTicket* const ticket = light.peek()) {
    if (refusal_of(*ticket, kLightShare)) return;
    ticket->seen_in_round = round_;
    if (still_wanted(*ticket)) take(*ticket);
  }
}

void BatchPolicy::take_in_turn() {
  TurnCursor in_turn = cursor(index_->turns().flows(choice_->model).all);
  const bool light_came_first = !choice_->tickets.empty();
  bool took_turn = false;
  for (;;) {
    // Those who share with light clients come after the ticket in turn.
    if (took_turn) take_neighbours(in_turn);
    WaitingTicket* const ticket = in_turn.peek();
    if (ticket == nullptr) {
      choice_->closed = BatchClosed::kQueueEmpty;
      return;
    }
    if (const std::optional<BatchClosed> reason = refusal_of(*ticket, 1)) {
      choice_->closed = *reason;
      choice_->owes_turn = light_came_first && !took_turn;
      if (!took_turn) take_neighbours(in_turn);
      return;
    }
    ticket->seen_in_round = round_;
    if (still_wanted(*ticket)) {
      take(*ticket);
      took_turn = true;
    }
  }
}

void BatchPolicy::take_neighbours(TurnCursor& cursor) {
  while (!neighbours_.empty() && dismissals_left_ > 0) {
    std::pop_heap(neighbours_.begin(), neighbours_.end(), shares_less<Neighbour>);
    const Neighbour neighbour = neighbours_.back();
    neighbours_.pop_back();
    WaitingTicket& ticket = *neighbour.ticket;
    if (ticket.seen_in_round == round_) continue;  // what is behind it is reached from there
    if (may_come_along(neighbour, cursor)) {
      ticket.seen_in_round = round_;
      if (still_wanted(ticket)) {
        take(ticket);
        continue;
      }
    }
    --dismissals_left_;
    push_neighbour(ticket, neighbour.side, neighbour.shared);
  }
}

bool BatchPolicy::may_come_along(const Neighbour& neighbour, TurnCursor& cursor) const {
  const WaitingTicket& ticket = *neighbour.ticket;
  if (ticket.ids.size() > rules_->ticket_tokens_max) return false;
  if (neighbour.twin && builder_.dedup() == engine::DedupMode::kTrie) return true;
  if (kShareDivisor * neighbour.shared < ticket.ids.size()) return false;
  const WaitingTicket* const in_turn = cursor.peek();
  const bool in_time = in_turn == nullptr || ticket.turn <= in_turn->may_be_overtaken_until;
  return in_time && !refusal_of(ticket, 1);
}

/// Why there is no room for `ticket` in `share` of the batch's budget, if there is none.
std::optional<BatchClosed> BatchPolicy::refusal_of(const WaitingTicket& ticket,
                                                   double share) const {
  return refusal(builder_, ticket.tenant, ticket.ids, ticket.wanted, *rules_, coefficients_, share);
}

/// Whether anybody waits for `ticket`; notes a request whose deadline is over.
bool BatchPolicy::still_wanted(const WaitingTicket& ticket) {
  const std::shared_ptr<RequestState>& request = ticket.request->state;
  if (request->ended()) return false;
  if (request->deadline() > now_) return true;
  if (choice_->expired.empty() || choice_->expired.back() != request) {
    choice_->expired.push_back(request);
  }
  return false;
}

void BatchPolicy::take(WaitingTicket& ticket) {
  choice_->tickets.push_back({ticket.request->state, ticket.index});
  choice_->least_turn = std::min(choice_->least_turn, ticket.turn);
  choice_->largest_turn = std::max(choice_->largest_turn, ticket.turn);
  builder_.add(ticket.tenant, ticket.ids, ticket.wanted);
  if (builder_.dedup() == engine::DedupMode::kOff) return;  // nothing would be shared
  push_neighbour(ticket, Side::kLeft, ticket.ids.size());
  push_neighbour(ticket, Side::kRight, ticket.ids.size());
}

/// The next ticket beyond `ticket`, which itself shares `shared_max` tokens with the batch.
void BatchPolicy::push_neighbour(const WaitingTicket& ticket, Side side, size_t shared_max) {
  WaitingTicket* const next = index_->prefixes().neighbour(ticket, side);
  if (next == nullptr || next->seen_in_round == round_) return;
  const size_t shared = std::min(shared_max, shared_tokens(ticket, *next));
  if (shared == 0) return;
  const bool twin = shared == next->ids.size() && shared == ticket.ids.size();
  neighbours_.push_back({twin, shared, next, side});
  std::push_heap(neighbours_.begin(), neighbours_.end(), shares_less<Neighbour>);
}

}  // namespace espalier::scheduler
