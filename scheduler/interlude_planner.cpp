#include "scheduler/interlude_planner.h"

namespace espalier::scheduler {

bool InterludePlanner::next(const InterludeBudget& budget, Batch& batch) {
  const BatchRules rules = interlude_rules(limits_, budget);
  batch.refinements = 0;
  while (queue_.has_tickets()) {
    if (!planner_.plan_next(queue_, rules, Clock::now(), batch)) {
      return false;
    }
    if (queue_.dispatch(batch.choice)) {
      mark_taken(batch, Clock::now());
      return true;
    }
  }
  return false;
}

}  // namespace espalier::scheduler
