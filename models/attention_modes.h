// The attention of a batch in each of its dedup modes.
//
// kTrie and kOff run along the trie in compact rows (for kOff the trie is a forest of chains).
// kRadixMlp is RadixMLP as published: one sequence at a time, its rows are scattered from the
// compact ones, plain causal attention runs over the full sequence, and compact rows gather their
// result from the full row that owns them.
//
// Thread contract: one batch at a time per object.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/activations.h"
#include "engine/batch_plan.h"
#include "engine/thread_pool.h"
#include "engine/trie_attention.h"
#include "models/stage_seconds.h"
#include "models/workspace.h"

namespace espalier::models {

class BatchAttention {
 public:
  /// `format`: of queries, keys, values and results; kF32 or kBf16.
  BatchAttention(const engine::AttentionShape& shape, engine::NumberFormat format,
                 engine::ThreadPool& pool, Workspace& workspace, StageSeconds& seconds);
  BatchAttention(const BatchAttention&) = delete;  // it holds on to its workspace
  BatchAttention& operator=(const BatchAttention&) = delete;

  engine::NumberFormat format() const { return format_; }

  /// Makes room for batches of up to `rows` compact rows.
  void reserve(size_t rows);

  /// Reads `plan`, which must stay as it is until the batch's last call of attend…().
  void prepare(const engine::BatchPlan& plan);

  /// out (B × Q) = attention of the compact rows from `first` for their queries (B × Q) and the
  /// batch's keys and values (C × K), of which rows up to first + B are read. In kRadixMlp a block
  /// must be the whole batch.
  void attend_rows(size_t first, engine::ConstActivations queries, engine::ConstActivations keys,
                   engine::ConstActivations values, engine::Activations out);

  /// out (B × Q) = the same for the plan's wanted rows from the `first`-th.
  void attend_wanted(size_t first, engine::ConstActivations queries, engine::ConstActivations keys,
                     engine::ConstActivations values, engine::Activations out);

 private:
  using Rows = std::span<const uint32_t>;

  void attend(Rows query_rows, engine::ConstActivations queries, engine::ConstActivations keys,
              engine::ConstActivations values, engine::Activations out);
  void attend_per_sequence(Rows query_rows, engine::ConstActivations queries,
                           engine::ConstActivations keys, engine::ConstActivations values,
                           engine::Activations out);
  void choose_queries(Rows query_rows, size_t first, size_t length);

  engine::AttentionShape shape_;
  engine::NumberFormat format_;
  engine::ThreadPool& pool_;
  Workspace& workspace_;
  StageSeconds& seconds_;
  engine::AttentionScratch scratch_;
  const engine::BatchPlan* plan_ = nullptr;
  std::vector<uint32_t> node_of_row_;  // (C)
  std::vector<uint32_t> all_rows_;     // (C) 0, 1, 2, …
  std::vector<uint32_t> chain_nodes_;  // (L) the one node of a sequence on its own

  // One sequence's queries: their rows in it, and where they stand in `queries` and `out`.
  std::vector<uint32_t> sequence_rows_;
  std::vector<uint32_t> query_of_;
};

}  // namespace espalier::models
