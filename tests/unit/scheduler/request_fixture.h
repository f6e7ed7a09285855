// Requests in a queue, for the tests of the classes between admission and the forward pass.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "scheduler/pending_request.h"
#include "scheduler/ticket_queue.h"
#include "tests/unit/scheduler/fake_forward_pass.h"

namespace espalier::scheduler::testing {

inline std::shared_ptr<RequestState> admit(const std::shared_ptr<TicketQueue>& queue,
                                           Submission submission) {
  auto request = std::make_shared<RequestState>(std::move(submission), queue, Clock::now());
  return queue->admit(request) == QueueAnswer::kAdmitted ? request : nullptr;
}

/// Lets `tickets_max` tickets into a batch, and remembers nothing else.
class CountingChooser final : public TicketChooser {
 public:
  explicit CountingChooser(size_t tickets_max) : left_(tickets_max) {}
  bool fits(const Ticket&) const override { return left_ > 0; }
  void add(const Ticket&) override { --left_; }

 private:
  size_t left_;
};

struct Taken {
  std::vector<Ticket> tickets;
  std::vector<std::shared_ptr<RequestState>> expired;
};

inline Taken take(TicketQueue& queue, size_t tickets_max, Clock::time_point now = Clock::now()) {
  Taken taken;
  CountingChooser chooser(tickets_max);
  queue.take(chooser, now, taken.tickets, taken.expired);
  return taken;
}

inline std::vector<size_t> indices(const std::vector<Ticket>& tickets) {
  std::vector<size_t> result;
  for (const Ticket& ticket : tickets) {
    result.push_back(ticket.index);
  }
  return result;
}

}  // namespace espalier::scheduler::testing
