// What a front end submits to the scheduler, and what it gets back.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace espalier::scheduler {

using Clock = std::chrono::steady_clock;

/// Which final hidden states of a sequence its head reads, and what it is given of them.
enum class WantedRows : uint8_t {
  kLast,   // the last token's
  kFirst,  // the first token's
  kMean,   // the mean of all tokens'
  kAll,    // all of them
};

/// Whether every token's hidden state is computed to the end.
constexpr bool wants_every_row(WantedRows wanted) {
  return wanted == WantedRows::kAll || wanted == WantedRows::kMean;
}

/// Rows of a sequence of `tokens` that are read.
constexpr size_t wanted_rows(WantedRows wanted, size_t tokens) {
  return wants_every_row(wanted) ? tokens : 1;
}

/// One input: the ids that the model sees, at least one. Checked against the vocabulary by the
/// caller.
struct Sequence {
  std::vector<uint32_t> token_ids;
  WantedRows wanted = WantedRows::kLast;
};

/// The inputs of one request: admitted all or none, results in the same order.
struct Submission {
  size_t model = 0;     // index into the scheduler's models
  uint64_t tenant = 0;  // sequences of different tenants never share rows
  uint64_t client = 0;  // clients that wait at the same time get fair shares of the machine
  double weight = 1;    // of the client's share, against those of others; > 0
  std::vector<Sequence> sequences;
  Clock::time_point deadline = Clock::time_point::max();
};

enum class FailureKind : uint8_t {
  kNeverFits,     // larger than the server's limits: no point in retrying
  kQueueFull,     // retry after `retry_after`
  kShuttingDown,  // draining: retry elsewhere
  kDeadline,      // its deadline passed before it was computed
  kCancelled,     // the caller cancelled it
  kCompute,       // the forward pass failed
};

struct Failure {
  FailureKind kind = FailureKind::kCompute;
  std::string message;
  std::chrono::seconds retry_after{0};
};

/// Hidden states of one sequence: rows × H f32, row-major; one row unless WantedRows::kAll.
using HiddenStates = std::vector<float>;

/// What one request cost.
struct RequestStats {
  size_t tokens = 0;  // full rows
  /// Compact rows that were computed on its account, in all batches that its sequences ran in. What
  /// sequences of one batch share is on the account of the request whose sequence the batch took
  /// in first, so over requests the sum is that of the batches' compact rows. Passes that failed
  /// and were repeated do not count: the fault may be a neighbour's.
  size_t new_rows = 0;
  double queue_seconds = 0;    // from admission until its first sequence was taken into a batch
  double compute_seconds = 0;  // from then until its last sequence was done
};

struct Completed {
  std::vector<HiddenStates> sequences;
  RequestStats stats;
};

template <typename T>
using Result = tl::expected<T, Failure>;

}  // namespace espalier::scheduler
