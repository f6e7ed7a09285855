// Batches to show: small plans with known shapes.
#pragma once

#include "server/debug/batch_recorder.h"

namespace espalier::server {

/// 4 shared tokens, below them 2 more that two sequences share, one ending there and one 3 tokens
/// on, and a third sequence of 5 tokens of its own; and a root of 6 tokens for one sequence.
/// 4 sequences, 30 tokens, 20 rows, 5 nodes.
engine::BatchPlan branching_plan();

/// `children` sequences, each a token of its own behind one that all share.
engine::BatchPlan wide_plan(size_t children);

/// `length` sequences, each one token longer than the one before, which it starts with.
engine::BatchPlan deep_plan(size_t length);

/// A report of `plan` with its counts; the plan must outlive it.
scheduler::BatchReport report_of(const engine::BatchPlan& plan);

/// What a recorder keeps of it.
RecordedTrie recorded(const engine::BatchPlan& plan);

}  // namespace espalier::server
