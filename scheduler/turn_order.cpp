#include "scheduler/turn_order.h"

#include <algorithm>
#include <utility>

namespace espalier::scheduler {
namespace {

/// Tickets that are too long for an interlude, on the way to one that is not: a choice must not
/// take time in the queue.
constexpr size_t kSkipsMax = 1024;

FlowEntry new_entry(Flow& flow) {
  FlowSet set{&flow};
  return set.extract(set.begin());
}

}  // namespace

bool ByHeadTurn::operator()(const Flow* a, const Flow* b) const {
  if (a->head_turn != b->head_turn) return a->head_turn < b->head_turn;
  return a->client < b->client;  // of one model
}

WaitingTicket* Flow::head() const {
  if (short_line.empty()) return long_line.front();
  if (long_line.empty()) return short_line.front();
  return comes_before(*long_line.front(), *short_line.front()) ? long_line.front()
                                                               : short_line.front();
}

Flow& TurnOrder::flow_of(uint64_t client, uint32_t model, double weight) {
  if (flows_.size() >= forget_at_) forget_idle_flows();
  std::unique_ptr<Flow>& flow = flows_[{client, model}];
  if (flow == nullptr) {
    auto created = std::make_unique<Flow>();
    created->client = client;
    created->model = model;
    created->all_entry = new_entry(*created);
    created->light_entry = new_entry(*created);
    flow = std::move(created);
  }
  flow->weight = weight;
  return *flow;
}

/// Idle flows whose turns are past are as good as new ones.
void TurnOrder::forget_idle_flows() {
  std::erase_if(flows_, [this](const auto& entry) {
    return entry.second == nullptr ||
           (entry.second->tickets == 0 &&
            entry.second->last_turn <= models_[entry.second->model].virtual_time);
  });
  forget_at_ = std::max<size_t>(64, 2 * flows_.size());
}

TicketLine& TurnOrder::line_of(Flow& flow, const WaitingTicket& ticket) const {
  return ticket.ids.size() <= rules_.short_tokens ? flow.short_line : flow.long_line;
}

void TurnOrder::add(WaitingTicket& ticket, uint64_t client, double weight) {
  Flow& flow = flow_of(client, ticket.model, weight);
  TicketLine& line = line_of(flow, ticket);
  ticket.in_line = line.insert(line.end(), &ticket);  // the last step that may throw
  leave_sets(flow);
  ticket.flow = &flow;
  const double now = models_[flow.model].virtual_time;
  ticket.turn = std::max(now, flow.last_turn) + ticket.cost / weight;
  ticket.may_be_overtaken_until =
      ticket.turn + std::max(kOvertakingBatches * rules_.batch_cost, ticket.turn - now);
  flow.last_turn = ticket.turn;
  flow.cost += ticket.cost;
  ++flow.tickets;
  enter_sets(flow);
}

void TurnOrder::remove(WaitingTicket& ticket, bool dispatched) {
  Flow& flow = *ticket.flow;
  leave_sets(flow);
  line_of(flow, ticket).erase(ticket.in_line);
  flow.cost -= ticket.cost;
  --flow.tickets;
  if (dispatched) flow.served_turn = std::max(flow.served_turn, ticket.turn);
  if (flow.tickets == 0) flow.cost = 0;  // without the rounding errors
  // What was given up is not held against the client.
  flow.last_turn = flow.served_turn;
  for (const TicketLine* line : {&flow.short_line, &flow.long_line}) {
    if (!line->empty()) flow.last_turn = std::max(flow.last_turn, line->back()->turn);
  }
  enter_sets(flow);
}

bool TurnOrder::is_light(double cost, double weight) const {
  return cost <= rules_.light_cost * std::min(1.0, weight);
}

bool TurnOrder::stays_light(uint64_t client, uint32_t model, double weight, double cost) const {
  const auto flow = flows_.find({client, model});
  return is_light(cost + (flow == flows_.end() ? 0 : flow->second->cost), weight);
}

void TurnOrder::advance(size_t model, double least_turn, double largest_turn) {
  ModelFlows& flows = models_[model];
  // Light clients and interludes go before tickets of earlier turns: whoever comes next must not
  // stand behind all of those.
  const double reached =
      flows.all.empty() ? largest_turn : std::min(least_turn, (*flows.all.begin())->head_turn);
  flows.virtual_time = std::max(flows.virtual_time, reached);
}

void TurnOrder::count_batch(size_t model, bool owes_turn) {
  models_[model].last_batch = ++batches_;
  models_[model].owes_turn = owes_turn;
}

void TurnOrder::leave_sets(Flow& flow) {
  ModelFlows& flows = models_[flow.model];
  if (flow.all_entry.empty()) flow.all_entry = flows.all.extract(&flow);
  if (flow.light_entry.empty()) flow.light_entry = flows.light.extract(&flow);
}

void TurnOrder::enter_sets(Flow& flow) {
  if (flow.tickets == 0) return;
  flow.head_turn = flow.head()->turn;
  ModelFlows& flows = models_[flow.model];
  flows.all.insert(std::move(flow.all_entry));
  if (is_light(flow.cost, flow.weight)) flows.light.insert(std::move(flow.light_entry));
}

TurnCursor::TurnCursor(const FlowSet& flows, uint64_t round, size_t tokens_max, size_t short_tokens)
    : flows_(&flows),
      next_flow_(flows.begin()),
      round_(round),
      tokens_max_(tokens_max),
      long_lines_(tokens_max > short_tokens),
      skips_left_(kSkipsMax) {}

bool TurnCursor::later(const Position& a, const Position& b) {
  return comes_before(*b.ticket, *a.ticket);
}

/// Moves to the flow's first ticket that may be taken; null if there is none.
void TurnCursor::settle(Position& position) {
  const auto first_in = [this](TicketLine::const_iterator& at, const TicketLine& line) {
    for (; at != line.end(); ++at) {
      const bool seen = (*at)->seen_in_round == round_;
      if (!seen && (*at)->ids.size() <= tokens_max_) return *at;
      if (!seen && skips_left_-- == 0) {
        skips_left_ = 0;
        at = line.end();
        break;
      }
    }
    return static_cast<WaitingTicket*>(nullptr);
  };
  WaitingTicket* const in_short = first_in(position.in_short, position.flow->short_line);
  WaitingTicket* const in_long =
      long_lines_ ? first_in(position.in_long, position.flow->long_line) : nullptr;
  if (in_short == nullptr || in_long == nullptr) {
    position.ticket = in_short == nullptr ? in_long : in_short;
  } else {
    position.ticket = comes_before(*in_short, *in_long) ? in_short : in_long;
  }
}

WaitingTicket* TurnCursor::peek() {
  // The round may have seen the first ones since: they came as neighbours of others.
  while (!heap_.empty() && heap_.front().ticket->seen_in_round == round_) {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    settle(heap_.back());
    if (heap_.back().ticket == nullptr) {
      heap_.pop_back();
    } else {
      std::push_heap(heap_.begin(), heap_.end(), later);
    }
  }
  // A flow's tickets have no turn before its head's: flows are looked at when it is their turn.
  while (next_flow_ != flows_->end() &&
         (heap_.empty() || (*next_flow_)->head_turn <= heap_.front().ticket->turn)) {
    const Flow* const flow = *next_flow_++;
    Position position{flow, flow->short_line.begin(), flow->long_line.begin(), nullptr};
    settle(position);
    if (position.ticket == nullptr) {
      if (skips_left_ == 0) return heap_.empty() ? nullptr : heap_.front().ticket;
      --skips_left_;
      continue;
    }
    heap_.push_back(position);
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  return heap_.empty() ? nullptr : heap_.front().ticket;
}

}  // namespace espalier::scheduler
