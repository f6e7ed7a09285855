#include "server/commands/descriptor_limit.h"

#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <limits>
#include <string>

namespace espalier::commands {
namespace {

/// The model's files, logs, event queues, the admin port and its probes.
constexpr size_t kOwnDescriptors = 128;

size_t count_of(rlim_t limit) {
  return limit == RLIM_INFINITY ? std::numeric_limits<size_t>::max() : static_cast<size_t>(limit);
}

}  // namespace

size_t raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlimit before = limit;
  limit.rlim_cur = limit.rlim_max;
  if (limit.rlim_cur != before.rlim_cur && ::setrlimit(RLIMIT_NOFILE, &limit) != 0) limit = before;
  spdlog::info("up to {} files and connections may be open{}", count_of(limit.rlim_cur),
               limit.rlim_cur == before.rlim_cur
                   ? std::string()
                   : " (raised from " + std::to_string(count_of(before.rlim_cur)) + ")");
  return count_of(limit.rlim_cur);
}

size_t connections_within(size_t descriptors) {
  return std::max<size_t>(1, descriptors - std::min(kOwnDescriptors, descriptors / 2));
}

}  // namespace espalier::commands
