#include "bench/scheduler_sim/replica_choice.h"

#include <algorithm>
#include <numeric>

#include "bench/scheduler_sim/random_stream.h"

namespace espalier::sim {

ReplicaChoice::ReplicaChoice(const BalanceSettings& settings, size_t replicas)
    : settings_(settings), on_the_way_(replicas) {}

size_t ReplicaChoice::choose(std::optional<uint64_t> key) {
  size_t replica = 0;
  if (settings_.balance == Balance::kRoundRobin) {
    replica = next_in_turn();
  } else if (settings_.balance == Balance::kAffinity && key) {
    replica = by_key(*key);
  } else {
    replica = least_loaded();
  }
  ++on_the_way_[replica];
  return replica;
}

size_t ReplicaChoice::next_in_turn() { return turn_++ % on_the_way_.size(); }

size_t ReplicaChoice::least_loaded() const {
  return static_cast<size_t>(
      std::distance(on_the_way_.begin(), std::ranges::min_element(on_the_way_)));
}

/// Every key has an order of preference of its own (rendezvous hashing), which does not change for
/// the others when a replica comes or goes.
size_t ReplicaChoice::by_key(uint64_t key) const {
  const auto preference = [&](size_t replica) { return mixed(key ^ mixed(replica)); };
  const size_t all = std::accumulate(on_the_way_.begin(), on_the_way_.end(), size_t{1});
  const double bound =
      settings_.load_bound * static_cast<double>(all) / static_cast<double>(on_the_way_.size());
  std::optional<size_t> best;
  for (size_t replica = 0; replica < on_the_way_.size(); ++replica) {
    if (static_cast<double>(on_the_way_[replica]) >= bound) continue;
    if (!best || preference(replica) > preference(*best)) best = replica;
  }
  return best ? *best : least_loaded();
}

}  // namespace espalier::sim
