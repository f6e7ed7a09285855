// The two threads: the planner, one batch ahead, and the worker.
//
//   queue → planner thread → HandOff (one plan) → worker thread → requests
//
// An idle pipeline starts on a ticket at once, or after the batch window; nothing polls. In the
// pauses of a long pass the worker plans short batches itself (interlude_planner.h).
//
// Thread contract: construct and destroy from one thread.
#pragma once

#include <thread>

#include "scheduler/hand_off.h"
#include "scheduler/interlude_planner.h"
#include "scheduler/planner.h"
#include "scheduler/ticket_queue.h"
#include "scheduler/worker.h"

namespace espalier::scheduler {

class Pipeline {
 public:
  /// Starts the threads. `costs`, `queue` and `worker` must outlive the pipeline.
  Pipeline(const SchedulerLimits& limits, const CostModels& costs, TicketQueue& queue,
           Worker& worker);
  /// Stops the queue and joins. Does not wait for tickets, only for the forward pass that runs, or,
  /// if nobody wants that one any more, for its next pause.
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

 private:
  void plan_batches();
  bool plan_one(Batch& batch);
  bool gather(Batch& batch);
  bool plan_again(Batch& batch);
  void run_batches();
  void stop();

  const SchedulerLimits limits_;
  TicketQueue& queue_;
  Worker& worker_;
  Planner planner_;
  HandOff hand_off_;
  InterludePlanner interlude_planner_;
  std::thread planner_thread_;
  std::thread worker_thread_;
};

}  // namespace espalier::scheduler
