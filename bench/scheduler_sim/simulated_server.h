// One replica of the server on a fake clock: the real queue, planner and cost model; of the worker
// only the time that a forward pass takes, which is a formula.
//
// The next batch is settled a little before the running one ends, as in scheduler/pipeline.cpp:
// what comes later misses it. If nothing waited then, or the worker stands still, the first ticket
// that comes starts a batch. A pass that nobody wants any more stops at its next layer.
//
// Thread contract: none; one thread at a time.
#pragma once

#include <memory>

#include "bench/scheduler_sim/batch_chooser.h"
#include "bench/scheduler_sim/random_stream.h"
#include "bench/scheduler_sim/trace.h"
#include "scheduler/batch.h"
#include "scheduler/planner.h"
#include "scheduler/ticket_queue.h"

namespace espalier::sim {

struct ServerSettings {
  scheduler::SchedulerLimits limits;
  Policy policy = Policy::kShared;
  /// What the server believes about the model before anything has run.
  scheduler::PassCosts costs{0.00026, 0.03};
  /// What a pass takes in truth: 16 cores with a model of 0.6 billion parameters, about.
  scheduler::CostCoefficients truth{0.005, 1.0 / 2500, 0.00026 / 2500, 0.03 / 2500};
  double noise = 0;    // standard deviation of a pass's time, as a share of it
  double lead = 0.02;  // seconds before the end of a pass, at which the next batch is settled
  size_t layers = 28;  // of a pass: the points at which it may stop
  uint64_t seed = 1;   // of the noise
};

/// A point of the fake clock.
scheduler::Clock::time_point time_point(double seconds);

/// What a replica tells about itself. `now` in seconds.
class ServerListener {
 public:
  virtual ~ServerListener() = default;
  /// Its tickets have left the queue.
  virtual void on_dispatch(size_t replica, const scheduler::Batch& batch, double now) = 0;
  /// It ran from `started` to `now`, to its end unless `abandoned`; its tickets are fulfilled.
  virtual void on_batch_end(size_t replica, const scheduler::Batch& batch, double started,
                            double now, bool abandoned) = 0;
};

class SimulatedServer {
 public:
  /// `listener` must outlive the server.
  SimulatedServer(size_t replica, const ServerSettings& settings, ServerListener& listener);

  const std::shared_ptr<scheduler::TicketQueue>& queue() const { return queue_; }
  bool admit(const std::shared_ptr<scheduler::RequestState>& request);

  /// When something happens here by itself; kNever if nothing will.
  double next_event() const;
  /// What happens at `now`: the running pass ends, if it is time.
  void reach(double now);
  /// Plans the next batch if it is time and something waits. Call after all that happens at `now`.
  void plan(double now);
  /// Requests have failed: stops a pass that nobody wants any more.
  void requests_failed(double now);

 private:
  using BatchPtr = std::unique_ptr<scheduler::Batch>;

  void start(BatchPtr batch, double now);
  void end_running(double now);

  const size_t replica_;
  const ServerSettings settings_;
  ServerListener& listener_;
  scheduler::CostModels costs_;
  std::shared_ptr<scheduler::TicketQueue> queue_;
  std::unique_ptr<BatchChooser> chooser_;
  RandomStream noise_;

  BatchPtr running_, settled_;
  BatchPtr spare_;  // a batch's memory
  double started_ = 0;
  double ends_ = 0;
  double pass_seconds_ = 0;  // of the whole pass
  double settles_ = 0;       // the next batch
  bool settle_due_ = false;  // settles_ has not been reached
  bool abandoned_ = false;
};

}  // namespace espalier::sim
