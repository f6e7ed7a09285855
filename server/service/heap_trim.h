// Gives the system back what the allocator keeps of memory that was freed. Without it, a server
// that has once been sent large requests keeps their memory: what is free lies between what is not.
//
// Thread contract: any thread.
#pragma once

#include <atomic>
#include <cstddef>

namespace espalier::server {

/// For the life of the process, before there are other threads: few arenas, which free what others
/// could use, and large blocks of their own for what is large.
void configure_heap(size_t cpus);

class HeapTrim {
 public:
  /// A request has freed about `bytes`; `idle`: and there is no other.
  void freed(size_t bytes, bool idle);

 private:
  std::atomic<size_t> bytes_ = 0;  // since the last time
};

}  // namespace espalier::server
