// The memory that requests take beside their bodies. Whoever holds answers waits for none to read.
//
// Thread contract: that of MemoryPool.
#pragma once

#include <cstddef>

#include "server/service/heap_trim.h"
#include "server/service/memory_pool.h"

namespace espalier::server {

struct RequestMemory {
  RequestMemory(size_t reading_bytes, size_t answer_bytes)
      : reading(reading_bytes, "reading"), answers(answer_bytes, "answering") {}

  MemoryPool reading;  // parsing bodies, what is made of them, and its tokens
  MemoryPool answers;  // hidden states, embeddings, and their text until it has been handed on
  HeapTrim trim;

  /// A request is done that had `bytes` of them.
  void freed(size_t bytes) {
    trim.freed(bytes, reading.bytes_in_use() + answers.bytes_in_use() == 0);
  }
};

}  // namespace espalier::server
