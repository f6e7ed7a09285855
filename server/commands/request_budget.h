// How much memory requests may take: a part of what is left beside the models, so that a server
// whose models fit is not killed by what it is sent.
//
// Thread contract: functions without state.
#pragma once

#include <cstddef>

#include "server/commands/memory_limit.h"
#include "server/http/http_server.h"

namespace espalier::commands {

/// Bytes. Who would exceed one of them waits, or is answered 413 or 429.
struct RequestBudget {
  server::HttpMemory http;
  size_t reading = 0;  // of parsing, and of what is made of bodies
  size_t answers = 0;  // of hidden states, embeddings and their text

  size_t total() const { return http.bodies + http.unsent + reading + answers; }
};

/// The least that requests need, about; with less a server does not start.
inline constexpr size_t kRequestBytesMin = size_t{32} << 20U;

/// Of what `limit` leaves beside `resident` bytes. The rest of that is for what the allocator
/// keeps, stacks, sockets, and the pages of mapped tables. `body_bytes_max`: --max-body-mb.
RequestBudget request_budget(const MemoryLimit& limit, size_t resident, size_t body_bytes_max);

/// Connections that `limit` has memory for, if all of them send half a head.
size_t connections_within_memory(const MemoryLimit& limit, size_t head_bytes_max);

}  // namespace espalier::commands
