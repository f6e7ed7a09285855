// What the debug endpoints show: when the last batches ran, and the trie of the last one. Holds
// numbers alone, neither texts nor token ids.
//
// Thread contract: every member may be called from any thread. on_batch() copies the trie's shape
// into memory that it keeps, so it delays the worker by a copy at most, its reader's included.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "engine/batch_plan.h"
#include "scheduler/scheduler.h"

namespace espalier::server {

/// One batch, as its report had it.
struct RecordedBatch {
  uint64_t number = 0;  // 1 for the first since the start
  size_t model = 0;     // the scheduler's index
  size_t sequences = 0;
  size_t full_rows = 0;
  size_t compact_rows = 0;
  scheduler::BatchClosed closed = scheduler::BatchClosed::kQueueEmpty;
  size_t refinements = 0;
  scheduler::Clock::time_point plan_started{};
  scheduler::Clock::time_point plan_ended{};
  scheduler::Clock::time_point pass_started{};
  scheduler::Clock::time_point pass_ended{};
  double idle_seconds = 0;
  double predicted_seconds = 0;
  double compute_seconds = 0;
  bool failed = false;
  bool abandoned = false;
  bool interlude = false;
};

/// The shape of one batch's trie; see engine/batch_plan.h.
struct RecordedTrie {
  RecordedBatch batch;
  engine::DedupMode dedup = engine::DedupMode::kTrie;
  std::vector<engine::TrieNode> nodes;
  std::vector<engine::SequenceEnd> ends;
};

class BatchRecorder final : public scheduler::SchedulerObserver {
 public:
  static constexpr size_t kBatchesKept = 512;

  void on_batch(const scheduler::BatchReport& report) override;

  scheduler::Clock::time_point started() const { return started_; }
  /// The last kBatchesKept batches, oldest first.
  std::vector<RecordedBatch> batches() const;
  /// Of the last batch; number 0 before the first.
  RecordedTrie trie() const;

 private:
  const scheduler::Clock::time_point started_ = scheduler::Clock::now();
  mutable std::mutex mutex_;
  std::array<RecordedBatch, kBatchesKept> ring_;  // number n at n % kBatchesKept
  uint64_t count_ = 0;
  RecordedTrie trie_;
};

}  // namespace espalier::server
