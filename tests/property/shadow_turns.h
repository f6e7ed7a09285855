// The rule of turns (scheduler/turn_order.h), written a second time, plainly: what the properties
// of the scheduler are stated in. It knows clients, costs and weights, and sees which tickets were
// dispatched; it does not see the queue.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace espalier::sim::testing {

class ShadowTurns {
 public:
  explicit ShadowTurns(double batch_cost) : batch_cost_(batch_cost) {}

  struct Place {
    double turn = 0;
    double came_at = 0;  // the virtual time when it came
    double window = 0;   // how far beyond its turn those may be that overtake it
  };

  Place came(uint64_t client, double weight, double cost) {
    Line& line = lines_[client];
    Place place;
    place.came_at = now_;
    place.turn = std::max(now_, line.last) + cost / weight;
    place.window = std::max(16 * batch_cost_, place.turn - now_);
    line.waiting.insert(place.turn);
    line.last = place.turn;
    return place;
  }
  void dispatched(uint64_t client, double turn) {
    lines_[client].served = std::max(lines_[client].served, turn);
    left(client, turn);
  }
  void given_up(uint64_t client, double turn) { left(client, turn); }
  /// A batch was dispatched; `turn` is the least of its tickets' turns and of those that wait on,
  /// or the largest of its tickets' turns if none waits on.
  void advance(double turn) { now_ = std::max(now_, turn); }
  double now() const { return now_; }

 private:
  struct Line {
    double last = 0;
    double served = 0;
    std::multiset<double> waiting;  // turns
  };
  void left(uint64_t client, double turn) {
    Line& line = lines_[client];
    line.waiting.erase(line.waiting.find(turn));
    line.last = line.waiting.empty() ? line.served : std::max(line.served, *line.waiting.rbegin());
  }

  double batch_cost_;
  double now_ = 0;
  std::map<uint64_t, Line> lines_;
};

}  // namespace espalier::sim::testing
