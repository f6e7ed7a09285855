// Where the worker gets interludes from: the queue itself.
//
// Whatever was planned ahead while a long pass runs may be long too, or hold short tickets next to
// long ones. So, for the rest of a pass that is interrupted, the planner thread rests, the batch in
// the slot goes back to the queue, and interludes are chosen from all that waits. Planning the
// batch after the long pass only begins when that has ended: milliseconds after a pass of seconds.
//
// Thread contract: the worker's thread.
#pragma once

#include "scheduler/batch.h"
#include "scheduler/hand_off.h"
#include "scheduler/planner.h"
#include "scheduler/ticket_queue.h"

namespace espalier::scheduler {

/// The worker's view of it.
class InterludeSource {
 public:
  virtual ~InterludeSource() = default;
  /// Fills `batch` with an interlude that keeps to `budget`; false if nothing that waits may
  /// overtake. Does not wait for tickets.
  virtual bool next(const InterludeBudget& budget, Batch& batch) = 0;
  /// The pass has ended: things take their usual way again.
  virtual void pass_ended() = 0;
};

class InterludePlanner final : public InterludeSource {
 public:
  /// `queue` and `hand_off` must outlive it.
  InterludePlanner(const SchedulerLimits& limits, TicketQueue& queue, HandOff& hand_off)
      : queue_(queue), hand_off_(hand_off), planner_(limits) {}

  bool next(const InterludeBudget& budget, Batch& batch) override;
  void pass_ended() override;

 private:
  void recall_planned_batch();

  TicketQueue& queue_;
  HandOff& hand_off_;
  Planner planner_;
  bool recalled_ = false;
};

}  // namespace espalier::scheduler
