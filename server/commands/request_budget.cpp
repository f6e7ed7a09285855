#include "server/commands/request_budget.h"

#include <algorithm>

namespace espalier::commands {
namespace {

/// More than this helps nobody: what waits is bounded, too.
constexpr size_t kRequestBytesMax = size_t{4} << 30U;
/// A body may take no more than this part of what all have.
constexpr size_t kBodiesMin = 4;
/// Of a connection beside its buffer: sockets, TLS.
constexpr size_t kConnectionBytes = size_t{32} << 10U;
constexpr size_t kConnectionsMin = 64;
constexpr size_t kConnectionsPart = 8;

}  // namespace

RequestBudget request_budget(const MemoryLimit& limit, size_t resident, size_t body_bytes_max) {
  const size_t left = limit.bytes > resident ? limit.bytes - resident : 0;
  const size_t all = std::clamp(left / 4 * 3, kRequestBytesMin, kRequestBytesMax);
  RequestBudget budget;
  budget.http.bodies = std::min(all / 4, server::kLargestBodiesAtOnce * body_bytes_max);
  budget.http.body_bytes_max = std::min(body_bytes_max, all / 4 / kBodiesMin);
  budget.http.unsent = std::min(all / 8, server::kLargestBodiesAtOnce * body_bytes_max);
  budget.reading = all / 4;
  budget.answers = all / 8 * 3;
  budget.http.answers = budget.answers;
  return budget;
}

size_t connections_within_memory(const MemoryLimit& limit, size_t head_bytes_max) {
  return std::max(kConnectionsMin,
                  limit.bytes / kConnectionsPart / (head_bytes_max + kConnectionBytes));
}

}  // namespace espalier::commands
