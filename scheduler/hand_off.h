// The one slot between the planner and the worker, and the batches that travel through it.
//
// The planner waits until the slot is empty before it chooses tickets, so it is never more than one
// batch ahead of the one that runs. Two batches travel: one runs, one is being filled or waits in
// the slot. They come back to be used again, with their memory.
//
// The worker can recall what was planned ahead, and the planner then rests until it is told to
// resume: between the two calls nobody but the worker takes tickets from the queue.
//
// Thread contract: one planner thread, one worker thread, close() from any.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "scheduler/batch.h"

namespace espalier::scheduler {

class HandOff {
 public:
  HandOff();

  /// Planner: waits until the slot is empty and a batch is wanted; a batch to fill, null once
  /// closed. From here to put() the planner must not wait for the worker.
  std::unique_ptr<Batch> wait_for_spare();
  /// Planner: fills the slot. A batch without tickets is taken back instead.
  void put(std::unique_ptr<Batch> batch);

  /// Worker: waits for a batch; null once closed.
  std::unique_ptr<Batch> take();
  /// Worker: the batch is done with; its tickets are let go, its memory is kept.
  void give_back(std::unique_ptr<Batch> batch);

  /// Worker: the planner rests from now on. Waits until it has finished what it is at, and returns
  /// what is in the slot then, null if nothing.
  std::unique_ptr<Batch> recall();
  /// Worker: ends the rest.
  void resume();

  /// Wakes both sides for good. A batch that is in the slot stays there, unrun.
  void close();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::unique_ptr<Batch> slot_;
  std::vector<std::unique_ptr<Batch>> spares_;
  bool planning_ = false;  // the planner has a batch to fill
  bool resting_ = false;
  bool closed_ = false;
};

}  // namespace espalier::scheduler
