// Splitting the rows of a matrix: into blocks done one after the other, and among the pool's
// threads.
#pragma once

#include <algorithm>
#include <cstddef>

#include "engine/thread_pool.h"

namespace espalier::models {

/// Calls `body(first, count)` for consecutive blocks of at most `block` rows, in order.
template <typename Body>
void for_each_block(size_t rows, size_t block, const Body& body) {
  for (size_t first = 0; first < rows; first += block) body(first, std::min(block, rows - first));
}

/// Calls `body(row)` for every row, on the pool's threads. Rows do not depend on each other, so the
/// result does not depend on the split.
template <typename Body>
void for_each_row(engine::ThreadPool& pool, size_t rows, const Body& body) {
  constexpr size_t kRowsPerTask = 16;
  const size_t tasks = (rows + kRowsPerTask - 1) / kRowsPerTask;
  pool.parallel_for(tasks, [&](size_t task, size_t) {
    const size_t end = std::min(rows, (task + 1) * kRowsPerTask);
    for (size_t row = task * kRowsPerTask; row < end; ++row) body(row);
  });
}

}  // namespace espalier::models
