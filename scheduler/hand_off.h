// The one slot between the planner and the worker, and the batches that travel through it.
//
// The planner waits until the slot is empty before it chooses tickets, so it is never more than one
// batch ahead of the one that runs. Two batches travel: one runs, one is being filled or waits in
// the slot. They come back to be used again, with their memory.
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

  /// Planner: waits until the slot is empty; false once closed.
  bool wait_until_empty();
  /// Planner: a batch to fill, once the slot is empty.
  std::unique_ptr<Batch> spare();
  /// Planner: fills the slot, which is empty.
  void put(std::unique_ptr<Batch> batch);

  /// Worker: waits for a batch; null once closed.
  std::unique_ptr<Batch> take();

  /// Both: the batch is done with; its tickets are let go, its memory is kept.
  void give_back(std::unique_ptr<Batch> batch);

  /// Wakes both sides for good. A batch that is in the slot stays there, unrun.
  void close();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::unique_ptr<Batch> slot_;
  std::vector<std::unique_ptr<Batch>> spares_;
  bool closed_ = false;
};

}  // namespace espalier::scheduler
