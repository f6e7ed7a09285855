#include "scheduler/interlude_planner.h"

#include <memory>
#include <utility>

namespace espalier::scheduler {

bool InterludePlanner::next(const InterludeBudget& budget, Batch& batch) {
  if (!recalled_) {
    recall_planned_batch();
  }
  return queue_.has_tickets() && planner_.plan_interlude(queue_, budget, batch);
}

void InterludePlanner::recall_planned_batch() {
  recalled_ = true;
  if (std::unique_ptr<Batch> planned = hand_off_.recall()) {
    queue_.put_back(planned->tickets);
    hand_off_.give_back(std::move(planned));
  }
}

void InterludePlanner::pass_ended() {
  if (recalled_) {
    recalled_ = false;
    hand_off_.resume();
  }
}

}  // namespace espalier::scheduler
