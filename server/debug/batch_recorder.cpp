#include "server/debug/batch_recorder.h"

#include <algorithm>
#include <new>

namespace espalier::server {
namespace {

RecordedBatch record_of(const scheduler::BatchReport& report, uint64_t number) {
  RecordedBatch record;
  record.number = number;
  record.model = report.model;
  record.sequences = report.sequences;
  record.full_rows = report.full_rows;
  record.compact_rows = report.compact_rows;
  record.closed = report.closed;
  record.refinements = report.refinements;
  record.plan_started = report.plan_started;
  record.plan_ended = report.plan_ended;
  record.pass_started = report.pass_started;
  record.pass_ended = report.pass_ended;
  record.idle_seconds = report.idle_seconds;
  record.predicted_seconds = report.predicted_seconds;
  record.compute_seconds = report.compute_seconds;
  record.failed = report.failed;
  record.abandoned = report.abandoned;
  record.interlude = report.interlude;
  return record;
}

}  // namespace

void BatchRecorder::on_batch(const scheduler::BatchReport& report) {
  const std::lock_guard lock(mutex_);
  ++count_;
  const RecordedBatch record = record_of(report, count_);
  ring_[count_ % kBatchesKept] = record;
  if (report.plan == nullptr) return;
  try {
    trie_.nodes.assign(report.plan->nodes.begin(), report.plan->nodes.end());
    trie_.ends.assign(report.plan->ends.begin(), report.plan->ends.end());
    trie_.dedup = report.plan->dedup;
    trie_.batch = record;
  } catch (const std::bad_alloc&) {  // an observer must not fail a batch
    trie_ = {};
  }
}

std::vector<RecordedBatch> BatchRecorder::batches() const {
  std::vector<RecordedBatch> batches;
  batches.reserve(kBatchesKept);
  const std::lock_guard lock(mutex_);
  const uint64_t kept = std::min<uint64_t>(count_, kBatchesKept);
  for (uint64_t number = count_ - kept + 1; number <= count_; ++number)
    batches.push_back(ring_[number % kBatchesKept]);
  return batches;
}

RecordedTrie BatchRecorder::trie() const {
  const std::lock_guard lock(mutex_);
  return trie_;
}

}  // namespace espalier::server
