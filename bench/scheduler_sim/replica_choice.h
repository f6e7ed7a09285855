// Which replica of a fleet gets a request: what a proxy in front of them decides.
//
// Thread contract: none; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace espalier::sim {

enum class Balance : uint8_t {
  kRoundRobin,
  kLeastRequests,  // the one with the fewest requests on the way
  kAffinity,       // by key, within a bound on the load; without a key as kLeastRequests
};

struct BalanceSettings {
  Balance balance = Balance::kRoundRobin;
  /// No replica gets a key's request when it has this many times the mean of requests on the way
  /// (HAProxy's hash-balance-factor / 100). Consistent hashing with bounded loads: Mirrokni,
  /// Thorup, Zadimoghaddam 2018.
  double load_bound = 1.5;
};

class ReplicaChoice {
 public:
  ReplicaChoice(const BalanceSettings& settings, size_t replicas);

  /// The replica for a request, whose requests on the way this then counts. Those of one key go to
  /// one replica as long as its load allows, else to the next one in an order of their own.
  size_t choose(std::optional<uint64_t> key);
  /// A request that `replica` had has ended.
  void ended(size_t replica) { --on_the_way_[replica]; }

 private:
  size_t next_in_turn();
  size_t least_loaded() const;
  size_t by_key(uint64_t key) const;

  const BalanceSettings settings_;
  std::vector<size_t> on_the_way_;
  size_t turn_ = 0;
};

}  // namespace espalier::sim
