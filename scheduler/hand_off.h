// The one slot between the planner and the worker, and the batches that travel through it.
//
// The planner is one batch ahead of the one that runs. It keeps what it has planned to itself, to
// plan it anew if the queue changes, until the worker *wants* it: it is free, or will be soon. Two
// batches travel: one runs, one is being filled or waits in the slot. They come back to be used
// again, with their memory.
//
// Thread contract: one planner thread, one worker thread, close() from any.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "scheduler/batch.h"

namespace espalier::scheduler {

enum class Wanted : uint8_t {
  kSoon,  // the running pass nears its end
  kNow,   // the worker stands still
  kNever  // closed
};

class HandOff {
 public:
  HandOff();

  /// Planner: waits until the slot is empty; a batch to fill, null once closed.
  std::unique_ptr<Batch> wait_for_spare();
  /// Planner: waits until the worker wants a batch.
  Wanted wait_until_wanted();
  /// Planner: fills the slot.
  void put(std::unique_ptr<Batch> batch);

  /// Worker: waits for a batch; null once closed.
  std::unique_ptr<Batch> take();
  /// Worker: a batch will be wanted soon.
  void want_soon();
  /// Either: the batch is done with; its tickets are let go, its memory is kept.
  void give_back(std::unique_ptr<Batch> batch);

  /// Wakes both sides for good. A batch that is in the slot stays there, unrun.
  void close();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::unique_ptr<Batch> slot_;
  std::vector<std::unique_ptr<Batch>> spares_;
  bool wanted_soon_ = false;
  bool wanted_now_ = false;
  bool closed_ = false;
};

}  // namespace espalier::scheduler
