// How long a ticket can wait, over random traces.
//
// Let V be the virtual time, turn(t) a ticket's turn and window(t) how far beyond it those may be
// that overtake it (scheduler/turn_order.h; tests/property/shadow_turns.h says it again). For a
// ticket t that came when the virtual time was V_t, and waits:
//
//   1. Whatever is dispatched meanwhile has a turn above V_t: the virtual time never passes a turn
//      that waits, and whoever comes gets a later one.
//   2. It has a turn of at most turn(t) + W, W being the largest window of all that waited while t
//      did. A ticket in turn is not after t; a neighbour is within the window of one in turn; and a
//      light client's ticket u is within window(u) of the virtual time at which it came, which was
//      not beyond turn(t).
//   3. Turns of one client are its costs over its weight, one after another, without overlap. So of
//      client g at most w_g * (turn(t) + W - V_t) is dispatched, and of the ticket that begins
//      below V_t the rest: at most the client's largest cost L_g more.
//
//      cost dispatched while t waits <= sum over g of [ w_g * (turn(t) - V_t + W) + L_g ]
//
// Tickets that add no row come along for nothing and are not counted. A batch takes no longer than
// its tickets alone, one after another, so with s the largest (seconds alone / cost) of a ticket,
//
//      seconds until t is dispatched <= running and settled batch + s * that cost.
//
// A light client that asks again and again runs ahead, and W with it. So there is a second bound
// without that: let W' be the largest window of those that waited while t did and whose turns were
// not after t's. All that is dispatched beyond turn(t) + W' are light clients' tickets. They have
// half of a batch at most, and there are never two batches in succession without a ticket in turn.
// The rest keeps to the bound with W' in place of W.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "scheduler/plan_builder.h"
#include "tests/property/random_traces.h"
#include "tests/property/shadow_turns.h"

namespace espalier::sim::testing {
namespace {

using namespace scheduler;

constexpr double kRounding = 1 + 1e-9;

/// The largest shares of the bounds that were used up.
struct Tightness {
  double cost = 0;
  double cost_without_light = 0;
  double seconds = 0;
  size_t light_ahead = 0;  // tickets that met light clients' beyond their windows

  void take(const Tightness& other) {
    cost = std::max(cost, other.cost);
    cost_without_light = std::max(cost_without_light, other.cost_without_light);
    seconds = std::max(seconds, other.seconds);
    light_ahead += other.light_ahead;
  }
};

/// Follows every ticket of a run and holds it against the bounds when it leaves the queue.
class WaitChecks final : public RunWatcher {
 public:
  explicit WaitChecks(const ServerSettings& settings)
      : settings_(settings),
        rows_max_(static_cast<double>(settings.limits.batch_rows_max)),
        sequences_max_(settings.limits.batch_sequences_max),
        turns_(rows_max_) {}

  Tightness tightness;

  void on_arrival(size_t, const RequestState& state, Outcome outcome, double now) override {
    if (outcome != Outcome::kOpen) return;
    Client& client = clients_[state.client()];
    client.weight = state.weight();
    for (const Sequence& sequence : state.sequences()) {
      const size_t tokens = sequence.token_ids.size();
      Waiting ticket;
      ticket.request = &state;
      ticket.index = tickets_[&state].size();
      ticket.cost = settings_.costs.of_sequence(tokens);
      ticket.place = turns_.came(state.client(), state.weight(), ticket.cost);
      ticket.came = now;
      ticket.in_flight = last_batches_[0] + last_batches_[1];
      note_windows(ticket);
      client.largest = std::max(client.largest, ticket.cost);
      const PassWork alone{static_cast<double>(tokens), attention_pairs(tokens), 1};
      dearest_ = std::max(dearest_, settings_.truth.seconds(alone) / ticket.cost);
      tickets_[&state].push_back(waiting_.size());
      waiting_.push_back(ticket);
    }
  }

  void on_dispatch(size_t, const Batch& batch, double now) override {
    std::vector<Dispatched> counted;  // those that add rows
    builder_.clear();
    double least_turn = kNever;
    double largest_turn = 0;
    for (const scheduler::Ticket& ticket : batch.tickets()) {
      Waiting& gone = find(*ticket.request, ticket.index);
      const double rows = builder_.price(ticket.tenant(), ticket.token_ids()).rows;
      builder_.add(ticket.tenant(), ticket.token_ids(), ticket.wanted());
      if (rows > 0) counted.push_back({gone.place.turn, gone.cost, rows});
      least_turn = std::min(least_turn, gone.place.turn);
      largest_turn = std::max(largest_turn, gone.place.turn);
      turns_.dispatched(ticket.request->client(), gone.place.turn);
      leave(gone, now);
      tickets_.at(ticket.request.get())[ticket.index] = kGone;
    }
    EXPECT_DOUBLE_EQ(batch.choice.least_turn, least_turn)
        << "the shadow's turns are not the queue's";
    forget_those_that_left();
    for (const Waiting& left : waiting_) least_turn = std::min(least_turn, left.place.turn);
    count_against_those_that_wait(std::move(counted));
    turns_.advance(waiting_.empty() ? largest_turn : least_turn);
    last_batches_[0] = last_batches_[1];
    last_batches_[1] = settings_.truth.seconds(batch.work);
  }

  void on_end(size_t, const RequestState& state, Outcome, double now) override {
    const auto found = tickets_.find(&state);
    if (found == tickets_.end()) return;
    for (const size_t at : found->second) {
      if (at == kGone) continue;  // it was dispatched
      turns_.given_up(state.client(), waiting_[at].place.turn);
      leave(waiting_[at], now);
    }
    tickets_.erase(found);
    forget_those_that_left();
  }

 private:
  static constexpr size_t kGone = SIZE_MAX;

  struct Waiting {
    const RequestState* request = nullptr;
    size_t index = 0;  // of the sequence within its request
    double cost = 0;
    ShadowTurns::Place place;
    double window_of_any = 0;     // W
    double window_of_before = 0;  // W'
    double came = 0;
    double in_flight = 0;  // seconds of the running and the settled batch
    // Dispatched while it waits:
    double cost_of_any = 0;
    double cost_within_window = 0;  // turns up to turn + W'
    bool met_light_ahead = false;
    bool turn_passed_over = false;  // by the last batch
    bool left = false;
  };
  struct Dispatched {
    double turn, cost, rows;
  };
  struct Client {
    double weight = 1;
    double largest = 0;
  };

  Waiting& find(const RequestState& state, size_t index) {
    return waiting_[tickets_.at(&state)[index]];
  }

  void note_windows(Waiting& ticket) {
    ticket.window_of_any = ticket.window_of_before = ticket.place.window;
    for (Waiting& other : waiting_) {
      const auto meet = [](Waiting& a, const Waiting& b) {
        a.window_of_any = std::max(a.window_of_any, b.place.window);
        if (b.place.turn > a.place.turn) return;
        a.window_of_before = std::max(a.window_of_before, b.place.window);
      };
      meet(ticket, other);
      meet(other, ticket);
    }
  }

  void count_against_those_that_wait(std::vector<Dispatched> counted) {
    std::sort(counted.begin(), counted.end(),
              [](const Dispatched& a, const Dispatched& b) { return a.turn < b.turn; });
    std::vector<double> costs{0}, rows{0};  // of the first so many
    for (const Dispatched& each : counted) {
      costs.push_back(costs.back() + each.cost);
      rows.push_back(rows.back() + each.rows);
    }
    for (Waiting& ticket : waiting_) {
      const double window_end = (ticket.place.turn + ticket.window_of_before) * kRounding;
      const auto beyond =
          std::upper_bound(counted.begin(), counted.end(), window_end,
                           [](double turn, const Dispatched& each) { return turn < each.turn; });
      const auto within = static_cast<size_t>(beyond - counted.begin());
      ticket.cost_of_any += costs.back();
      ticket.cost_within_window += costs[within];
      if (within < counted.size()) {
        ticket.met_light_ahead = true;
        EXPECT_TRUE(counted.size() == 1 || (rows.back() - rows[within] <= rows_max_ / 2 &&
                                            counted.size() - within <= sequences_max_ / 2))
            << "light clients took more than half of a batch";
      }
      const bool in_turn = !counted.empty() && counted.front().turn <= ticket.place.turn;
      EXPECT_TRUE(in_turn || !ticket.turn_passed_over) << "two batches without a ticket in turn";
      ticket.turn_passed_over = !in_turn;
    }
  }

  void leave(Waiting& ticket, double now) {
    ticket.left = true;
    const double any = bound(ticket, ticket.window_of_any);
    const double within = bound(ticket, ticket.window_of_before);
    const double seconds = ticket.in_flight + dearest_ * any;
    EXPECT_LE(ticket.cost_of_any, any * kRounding);
    EXPECT_LE(ticket.cost_within_window, within * kRounding);
    EXPECT_LE(now - ticket.came, seconds * kRounding);
    tightness.take({ticket.cost_of_any / any, ticket.cost_within_window / within,
                    (now - ticket.came) / seconds, ticket.met_light_ahead ? size_t{1} : 0});
  }

  double bound(const Waiting& ticket, double window) const {
    double cost = 0;
    for (const auto& [id, client] : clients_) {
      cost += client.weight * (ticket.place.turn - ticket.place.came_at + window) + client.largest;
    }
    return cost;
  }

  void forget_those_that_left() {
    std::erase_if(waiting_, [](const Waiting& ticket) { return ticket.left; });
    for (size_t i = 0; i < waiting_.size(); ++i) {
      tickets_[waiting_[i].request][waiting_[i].index] = i;
    }
  }

  const ServerSettings settings_;
  const double rows_max_;
  const size_t sequences_max_;
  PlanBuilder builder_{engine::DedupMode::kTrie};  // kept: a new one asks for a random seed
  ShadowTurns turns_;
  std::map<uint64_t, Client> clients_;
  std::vector<Waiting> waiting_;
  std::unordered_map<const RequestState*, std::vector<size_t>> tickets_;  // into waiting_
  double last_batches_[2] = {};  // seconds of those that were dispatched last
  double dearest_ = 0;           // s
};

class WaitBound : public ::testing::Test {
 protected:
  void check(const RandomRun& run) {
    WaitChecks checks(run.settings.server);
    simulate(run.trace, run.settings, &checks);
    tightness_.take(checks.tightness);
  }
  void TearDown() override {
    RecordProperty("cost_per_bound", std::to_string(tightness_.cost));
    RecordProperty("cost_without_light_per_bound", std::to_string(tightness_.cost_without_light));
    RecordProperty("seconds_per_bound", std::to_string(tightness_.seconds));
  }
  Tightness tightness_;
};

TEST_F(WaitBound, NoTicketOfARandomTraceWaitsLonger) {
  for (uint64_t seed = 0; seed < 1000 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    check(random_run(seed));
  }
  EXPECT_GT(tightness_.cost, 0.25) << "the bound says little";
}

TEST_F(WaitBound, LightClientsThatRunAheadMakeNobodyWaitLonger) {
  for (uint64_t seed = 0; seed < 100 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    check(light_clients_ahead(seed));
  }
  EXPECT_GT(tightness_.light_ahead, 100U) << "nobody ran ahead";
  EXPECT_GT(tightness_.cost_without_light, 0.25) << "the bound says little";
}

}  // namespace
}  // namespace espalier::sim::testing
