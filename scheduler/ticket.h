// A ticket: one sequence of a request on its way through queue, batch and forward pass. Plain data;
// it keeps its request, and with it the token ids, alive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "scheduler/pending_request.h"

namespace espalier::scheduler {

struct Ticket {
  std::shared_ptr<RequestState> request;
  size_t index = 0;  // of the sequence within its request

  std::span<const uint32_t> token_ids() const { return request->sequences()[index].token_ids; }
  WantedRows wanted() const { return request->sequences()[index].wanted; }
  uint64_t tenant() const { return request->tenant(); }
};

}  // namespace espalier::scheduler
