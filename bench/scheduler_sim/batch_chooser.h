// The policies that can be compared: who chooses a batch out of the real queue.
//
//   shared  the server's own Planner and BatchPolicy
//   fifo    strictly by arrival, under the same budgets, along the trie: what is shared is what
//           happens to stand side by side
//   off     the server's own, with deduplication off
//
// Thread contract: none; one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "scheduler/batch.h"
#include "scheduler/planner.h"

namespace espalier::sim {

enum class Policy : uint8_t { kShared, kFifo, kOff };

/// "shared", "fifo", "off".
std::string name_of(Policy policy);
std::vector<Policy> all_policies();

class BatchChooser {
 public:
  virtual ~BatchChooser() = default;
  /// `request` has entered the queue.
  virtual void admitted(const std::shared_ptr<scheduler::RequestState>& request) = 0;
  /// As Planner::plan_next().
  virtual bool plan_next(scheduler::TicketQueue& queue, const scheduler::BatchRules& rules,
                         scheduler::Clock::time_point now, scheduler::Batch& batch) = 0;
};

/// `costs` must outlive the chooser.
std::unique_ptr<BatchChooser> make_chooser(Policy policy, const scheduler::CostModels& costs);

}  // namespace espalier::sim
