#include "scheduler/batch_policy.h"

namespace espalier::scheduler {

bool BatchPolicy::fits(const Ticket& ticket) const {
  if (builder_.sequences() == 0) {
    return true;
  }
  const size_t tokens = ticket.token_ids().size();
  if (builder_.full_rows() + tokens > limits_.batch_full_rows_max) {
    return false;
  }
  if (builder_.rows() + tokens <= limits_.batch_rows_max) {
    return true;  // even if it shares nothing: no need to look
  }
  return builder_.rows() + builder_.new_rows(ticket.tenant(), ticket.token_ids()) <=
         limits_.batch_rows_max;
}

void BatchPolicy::add(const Ticket& ticket) {
  builder_.add(ticket.tenant(), ticket.token_ids(), ticket.wanted());
}

}  // namespace espalier::scheduler
