// Whose turn it is: fair queueing between clients, first in first out within one.
//
// Every ticket gets a *turn* when it comes: the turn before it in its client's line plus what it
// costs divided by the client's weight; a client that had nothing waiting starts from the virtual
// time, the least turn of the batch that was dispatched last or, if tickets of lower turns were
// left waiting, the least of theirs; if nothing was left waiting, the largest turn of that batch:
// nobody pays for what an idle machine has given (self-clocked fair queueing, Golestani 1994).
// Tickets are served by ascending turns, so that clients that wait at the same time get shares of
// the machine in proportion to their weights, and one that asks for little does not stand behind
// all that another has sent before.
//
// A ticket may be overtaken, for the sake of shared prefixes, by tickets whose turn comes later,
// but only by as much work as stood before it when it came, or by kOvertakingBatches full batches
// of a client of weight 1 if that is more. So its wait is bounded (docs/decisions/0009).
//
// Models are apart: each has its own virtual time, in which its clients' turns are. Whose batch is
// next among models is another question: that of the model that was served longest ago, so that
// with M of them that have tickets, none waits for more than M - 1 batches of others. Interludes
// go round among models likewise, and on a count of their own: short inputs that a model has in a
// long pass's pauses are not held against its long ones.
//
// A client is *light* while everything of it that waits is a small part of a batch, smaller if its
// weight is below 1.
//
// Thread contract: none; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "scheduler/waiting_ticket.h"

namespace espalier::scheduler {

struct ByHeadTurn {
  bool operator()(const Flow* a, const Flow* b) const;
};
using FlowSet = std::set<Flow*, ByHeadTurn>;
using FlowEntry = FlowSet::node_type;

/// The waiting tickets of one client for one model.
struct Flow {
  uint64_t client = 0;
  uint32_t model = 0;
  double weight = 1;
  double last_turn = 0;    // of its youngest ticket that has not been given up
  double served_turn = 0;  // the largest of those that have been dispatched
  double cost = 0;         // of all that waits
  size_t tickets = 0;
  TicketLine short_line;  // by arrival: inputs that may be short enough for an interlude,
  TicketLine long_line;   // … and the others
  double head_turn = 0;   // the least of its tickets; its key in FlowSets

  // Its entries of ModelFlows::all and ModelFlows::light while they are not in there: entering and
  // leaving allocates nothing.
  FlowEntry all_entry, light_entry;

  /// The ticket with the least turn; there is one.
  WaitingTicket* head() const;
};

struct TurnRules {
  size_t models = 1;
  size_t short_tokens = 640;  // longest input of the short lines
  double light_cost = 512;    // a client with less waiting is light
  double batch_cost = 4096;   // of a full batch
};

/// Flows of a model with tickets waiting, and how far it has come.
struct ModelFlows {
  FlowSet all;
  FlowSet light;
  double virtual_time = 0;
  uint64_t last_batch = 0;  // the number of its last batch, counted over all models; 0: none yet
  uint64_t last_interlude = 0;  // likewise, of interludes
  /// Its last batch owed the ticket in turn its turn (Choice::owes_turn).
  bool owes_turn = false;
};

class TurnOrder {
 public:
  /// Full batches' worth of later turns that may always overtake.
  static constexpr double kOvertakingBatches = 16;

  explicit TurnOrder(const TurnRules& rules) : rules_(rules), models_(rules.models) {}

  /// Enters `ticket`, whose `cost` is set, at the end of its client's line.
  void add(WaitingTicket& ticket, uint64_t client, double weight);
  /// `dispatched`: it was taken into a batch; else it was given up.
  void remove(WaitingTicket& ticket, bool dispatched);
  /// `model` had a batch, which was dispatched, its tickets removed: their least and largest turn.
  void advance(size_t model, double least_turn, double largest_turn);
  /// … which was its turn among models. `owes_turn`: of its next batch.
  void count_batch(size_t model, bool owes_turn);
  void count_interlude(size_t model) { models_[model].last_interlude = ++interludes_; }

  /// Whether the client would still be light with `cost` more waiting.
  bool stays_light(uint64_t client, uint32_t model, double weight, double cost) const;

  const TurnRules& rules() const { return rules_; }
  const ModelFlows& flows(size_t model) const { return models_[model]; }
  size_t models() const { return models_.size(); }
  /// Clients that are remembered, also those of which nothing waits.
  size_t clients() const { return flows_.size(); }

 private:
  struct Key {
    uint64_t client;
    uint32_t model;
    bool operator==(const Key& other) const {
      return client == other.client && model == other.model;
    }
  };
  struct KeyHash {
    size_t operator()(const Key& key) const {
      return std::hash<uint64_t>()(key.client * 0x9E3779B97F4A7C15U + key.model);
    }
  };

  bool is_light(double cost, double weight) const;
  Flow& flow_of(uint64_t client, uint32_t model, double weight);
  TicketLine& line_of(Flow& flow, const WaitingTicket& ticket) const;
  void leave_sets(Flow& flow);
  void enter_sets(Flow& flow);
  void forget_idle_flows();

  const TurnRules rules_;
  std::unordered_map<Key, std::unique_ptr<Flow>, KeyHash> flows_;
  std::vector<ModelFlows> models_;
  uint64_t batches_ = 0;
  uint64_t interludes_ = 0;
  size_t forget_at_ = 64;  // flows; doubled when all of them are needed
};

/// Goes through the waiting tickets of some flows by ascending turn, without those that the round
/// has seen and those that are too long. Valid as long as no ticket comes or leaves.
class TurnCursor {
 public:
  /// `flows` must outlive the cursor.
  TurnCursor(const FlowSet& flows, uint64_t round, size_t tokens_max, size_t short_tokens);

  /// The ticket whose turn it is; null at the end, or when too many too long ones stood in the way.
  WaitingTicket* peek();

 private:
  struct Position {
    const Flow* flow;
    TicketLine::const_iterator in_short, in_long;
    WaitingTicket* ticket;  // the next one that may be taken
  };

  void settle(Position& position);
  static bool later(const Position& a, const Position& b);

  const FlowSet* flows_;
  FlowSet::const_iterator next_flow_;
  std::vector<Position> heap_;  // least turn first
  uint64_t round_;
  size_t tokens_max_;
  bool long_lines_;
  size_t skips_left_;
};

}  // namespace espalier::scheduler
