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

#include "engine/batch_plan.h"
#include "engine/mat_view.h"
#include "engine/thread_pool.h"
#include "engine/trie_attention.h"
#include "models/workspace.h"

namespace espalier::models {

class BatchAttention {
 public:
  BatchAttention(const engine::AttentionShape& shape, engine::ThreadPool& pool,
                 Workspace& workspace);
  BatchAttention(const BatchAttention&) = delete;  // it holds on to its workspace
  BatchAttention& operator=(const BatchAttention&) = delete;

  /// Reads `plan`, which must stay as it is until the batch's last call of attend…().
  void prepare(const engine::BatchPlan& plan);

  /// out (C × Q) = attention of all compact rows, for queries (C × Q) and the batch's keys and
  /// values.
  void attend_all(engine::ConstMatView queries, const engine::KvSpan& kv, engine::MutMatView out);

  /// out (W × Q) = the same for the plan's wanted rows alone, for their queries (W × Q).
  void attend_wanted(engine::ConstMatView queries, const engine::KvSpan& kv,
                     engine::MutMatView out);

 private:
  using Rows = std::span<const uint32_t>;

  void attend(Rows query_rows, engine::ConstMatView queries, const engine::KvSpan& kv,
              engine::MutMatView out);
  void attend_per_sequence(Rows query_rows, engine::ConstMatView queries, const engine::KvSpan& kv,
                           engine::MutMatView out);
  void choose_queries(Rows query_rows, size_t first, size_t length);

  engine::AttentionShape shape_;
  engine::ThreadPool& pool_;
  Workspace& workspace_;
  const engine::BatchPlan* plan_ = nullptr;
  std::vector<uint32_t> node_of_row_;  // (C)
  std::vector<uint32_t> all_rows_;     // (C) 0, 1, 2, …
  std::vector<uint32_t> chain_nodes_;  // (L) the one node of a sequence on its own

  // One sequence's queries: their rows in it, and where they stand in `queries` and `out`.
  std::vector<uint32_t> sequence_rows_;
  std::vector<uint32_t> query_of_;
};

}  // namespace espalier::models
