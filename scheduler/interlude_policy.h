// Interludes: what may run while a pass over a long input stands still.
//
// A pass is worth interrupting when it has run for a while and has a while left, and interludes
// have not had their share of its time yet. A ticket may overtake when it is several times shorter
// than the longest sequence of the running batch: batches of inputs of one size never interrupt
// each other, so they keep their order and the prefixes they share. It must be short in itself,
// too, so that the next one need not wait long for it.
//
// Those that may overtake are chosen as for any batch; the others keep their places.
//
// Thread contract: functions without state.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "scheduler/batch.h"
#include "scheduler/batch_policy.h"
#include "scheduler/pass_pace.h"
#include "scheduler/scheduler.h"

namespace espalier::scheduler {

struct InterludeBudget {
  size_t ticket_tokens_max = 0;     // a longer ticket does not overtake
  size_t rows_max = 0;              // of an interlude of more than one ticket
  const std::vector<bool>* models;  // by model: whether its tickets may overtake; never null
};

/// The budget of an interlude that would begin now, while `running` stands still; none if it may
/// not be interrupted. `models` must outlive the budget.
std::optional<InterludeBudget> interlude_budget(const SchedulerLimits& limits, const Batch& running,
                                                const PassPace& pace,
                                                const std::vector<bool>& models);

/// What bounds an interlude under `budget`.
BatchRules interlude_rules(const SchedulerLimits& limits, const InterludeBudget& budget);

}  // namespace espalier::scheduler
