// Builds the plan of one batch: sequences in, BatchPlan out.
//
//   add(…) add(…) … → build(plan) → clear()
//
// kTrie and kRadixMlp lay the prefix trie out in canonical depth-first preorder: whatever the order
// in which sequences were added, the rows are the same; only `ends` (and the maps, which are per
// sequence) follow that order. kOff gives every sequence a root of its own, in the order of adding.
//
// Thread contract: none; one thread at a time. Memory is kept between batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/batch_plan.h"
#include "scheduler/canonical_order.h"
#include "scheduler/pass_work.h"
#include "scheduler/prefix_trie.h"
#include "scheduler/request.h"

namespace espalier::scheduler {

class PlanBuilder {
 public:
  explicit PlanBuilder(engine::DedupMode dedup);

  /// Rows that add() would add to the batch.
  size_t new_rows(uint64_t tenant, std::span<const uint32_t> ids) const;

  /// Adds a sequence of at least one token. `ids` must stay where they are until clear().
  void add(uint64_t tenant, std::span<const uint32_t> ids, WantedRows wanted);

  /// Writes the plan of what was added into `plan`, reusing its memory.
  void build(engine::BatchPlan& plan);

  /// Rows that sequence `s`, in the order of adding, added to the batch: those that it shares with
  /// none before it. They sum up to rows().
  uint32_t new_rows_of(size_t s) const { return sequences_[s].new_rows; }

  /// Forgets all sequences; leaves no view into anyone's ids.
  void clear();

  /// What a sequence of `ids` would add to the work of the batch.
  PassWork price(uint64_t tenant, std::span<const uint32_t> ids,
                 WantedRows wanted = WantedRows::kLast) const;
  /// What the batch computes; `wanted` counts a row once for each sequence that wants it.
  PassWork work() const { return {static_cast<double>(rows()), pairs_, wanted_}; }

  engine::DedupMode dedup() const { return dedup_; }
  size_t sequences() const { return sequences_.size(); }
  size_t full_rows() const { return full_rows_; }  // N: tokens of all sequences
  size_t rows() const;                             // C: rows that the batch computes

 private:
  struct Added {
    std::span<const uint32_t> ids;
    uint32_t trie_node = 0;  // where it ends; unused for kOff
    uint32_t new_rows = 0;
    WantedRows wanted = WantedRows::kLast;
  };
  /// Where a trie node went: a node that is its parent's only child continues the parent's plan
  /// node.
  struct Placed {
    uint32_t plan_node = 0;
    uint32_t last_row = 0;
  };

  void lay_out_chains(engine::BatchPlan& plan) const;
  void lay_out_trie(engine::BatchPlan& plan);
  void lay_out_tenant(uint32_t root, engine::BatchPlan& plan);
  void place_node(uint32_t root, uint32_t trie_node, engine::BatchPlan& plan);
  void collect_wanted_rows(engine::BatchPlan& plan);
  void build_maps(engine::BatchPlan& plan) const;

  engine::DedupMode dedup_;
  PrefixTrie trie_;
  CanonicalOrder order_;
  std::vector<Added> sequences_;
  std::vector<Placed> placed_;         // by trie node
  std::vector<uint64_t> wanted_bits_;  // one bit per row
  size_t full_rows_ = 0;
  double pairs_ = 0;
  double wanted_ = 0;
  uint32_t rows_laid_out_ = 0;
};

/// The row of the first token of sequence `s`.
uint32_t first_row(const engine::BatchPlan& plan, size_t s);

}  // namespace espalier::scheduler
