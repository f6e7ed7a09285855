#include "server/service/heap_trim.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <algorithm>

namespace espalier::server {
namespace {

/// Trimming takes milliseconds, as long as it takes to parse a megabyte.
constexpr size_t kBusyBytes = size_t{64} << 20U;
constexpr size_t kIdleBytes = size_t{16} << 20U;
constexpr size_t kCpusPerArena = 2;
constexpr int kLargeBlockBytes = 1 << 20;
constexpr int kKeptBytes = 8 << 20;

}  // namespace

void configure_heap(size_t cpus) {
#if defined(__GLIBC__)
  mallopt(M_ARENA_MAX, static_cast<int>(std::clamp<size_t>(cpus / kCpusPerArena, 1, 64)));
  // Setting it also keeps it: by default it grows to what was freed last, and bodies of 32 MB would
  // be parts of a heap.
  mallopt(M_MMAP_THRESHOLD, kLargeBlockBytes);
  mallopt(M_TRIM_THRESHOLD, kKeptBytes);
#else
  static_cast<void>(cpus);
#endif
}

void HeapTrim::freed(size_t bytes, bool idle) {
  const size_t freed = bytes_.fetch_add(bytes) + bytes;
  if (freed < (idle ? kIdleBytes : kBusyBytes)) return;
  bytes_ = 0;
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

}  // namespace espalier::server
