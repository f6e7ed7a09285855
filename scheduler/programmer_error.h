// For callers that break a contract: no input can lead here.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace espalier::scheduler {

/// Says what was done wrong and aborts.
[[noreturn]] inline void programmer_error(const char* what, size_t value = 0, size_t limit = 0) {
  std::fprintf(stderr, "espalier scheduler: %s (value %zu, limit %zu)\n", what, value, limit);
  std::abort();
}

}  // namespace espalier::scheduler
