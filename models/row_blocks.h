// Splitting the rows of a matrix: into blocks done one after the other, and among the pool's
// threads.
#pragma once

#include <algorithm>
#include <cstddef>

#include "engine/ceil_div.h"
#include "engine/thread_pool.h"

namespace espalier::models {

/// Calls `body(first, count)` for consecutive blocks of at most `block` rows, in order, until one
/// returns false; returns what the last one did (true if there are no rows).
template <typename Body>
bool for_each_block(size_t rows, size_t block, const Body& body) {
  for (size_t first = 0; first < rows; first += block) {
    if (!body(first, std::min(block, rows - first))) return false;
  }
  return true;
}

/// Calls of for_each_block()'s body.
constexpr size_t block_count(size_t rows, size_t block) { return engine::ceil_div(rows, block); }

/// Calls `body(row)` for every row, on the pool's threads. Rows do not depend on each other, so the
/// result does not depend on the split.
template <typename Body>
void for_each_row(engine::ThreadPool& pool, size_t rows, const Body& body) {
  constexpr size_t kRowsPerTaskMax = 16;
  const size_t share = engine::ceil_div(rows, pool.size());
  const size_t rows_per_task = std::clamp<size_t>(share, 1, kRowsPerTaskMax);
  pool.parallel_for(block_count(rows, rows_per_task), [&](size_t task, size_t) {
    const size_t end = std::min(rows, (task + 1) * rows_per_task);
    for (size_t row = task * rows_per_task; row < end; ++row) body(row);
  });
}

}  // namespace espalier::models
