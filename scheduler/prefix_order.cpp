#include "scheduler/prefix_order.h"

#include <algorithm>
#include <iterator>

#include "scheduler/prefix_trie.h"

namespace espalier::scheduler {

size_t shared_tokens(const WaitingTicket& a, const WaitingTicket& b) {
  return common_prefix(a.ids.data(), b.ids.data(), std::min(a.ids.size(), b.ids.size()));
}

bool ByPrefix::operator()(const WaitingTicket* a, const WaitingTicket* b) const {
  if (a->model != b->model) return a->model < b->model;
  if (a->tenant != b->tenant) return a->tenant < b->tenant;
  const size_t shared = shared_tokens(*a, *b);
  const bool a_ends = shared == a->ids.size();
  const bool b_ends = shared == b->ids.size();
  if (a_ends && b_ends) return a->arrival < b->arrival;
  if (a_ends || b_ends) return a_ends;
  return a->ids[shared] < b->ids[shared];
}

WaitingTicket* PrefixOrder::neighbour(const WaitingTicket& ticket, Side side) const {
  PrefixSet::const_iterator at = ticket.in_prefix_order;
  if (side == Side::kLeft) {
    if (at == tickets_.begin()) return nullptr;
    --at;
  } else if (++at == tickets_.end()) {
    return nullptr;
  }
  WaitingTicket* const other = *at;
  return other->model == ticket.model && other->tenant == ticket.tenant ? other : nullptr;
}

}  // namespace espalier::scheduler
