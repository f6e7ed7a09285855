#include "scheduler/ticket_queue.h"

#include <algorithm>
#include <utility>

#include "scheduler/clock.h"
#include "scheduler/pending_request.h"

namespace espalier::scheduler {
namespace {

/// An eighth of the queue is kept for light clients.
constexpr size_t kLightPart = 8;
/// A half of the queue is shared out among several models.
constexpr size_t kModelsPart = 2;

/// What `held` leaves of `share`.
size_t unused(size_t share, size_t held) { return share - std::min(share, held); }

std::unique_ptr<WaitingRequest> waiting_request(std::shared_ptr<RequestState> state) {
  auto request = std::make_unique<WaitingRequest>();
  request->tickets.resize(state->sequences().size());
  for (size_t i = 0; i < request->tickets.size(); ++i) {
    WaitingTicket& ticket = request->tickets[i];
    ticket.request = request.get();
    ticket.index = i;
    ticket.ids = state->sequences()[i].token_ids;
    ticket.wanted = state->sequences()[i].wanted;
    ticket.tenant = state->tenant();
    ticket.model = static_cast<uint32_t>(state->model());
  }
  request->state = std::move(state);
  return request;
}

}  // namespace

TicketQueue::TicketQueue(const QueueLimits& limits, const TurnRules& rules,
                         std::vector<PassCosts> costs)
    : limits_(limits), depths_(rules.models), index_(rules, std::move(costs)) {}

QueueAnswer TicketQueue::admit(std::shared_ptr<RequestState> state) {
  const RequestState* const key = state.get();
  const size_t tickets = state->sequences().size();
  const size_t tokens = state->tokens();
  std::unique_ptr<WaitingRequest> request = waiting_request(std::move(state));
  {
    const std::lock_guard lock(mutex_);
    if (closed_) {
      return QueueAnswer::kClosed;
    }
    if (!has_room(*request)) {
      return QueueAnswer::kFull;
    }
    WaitingRequest& entered = *request;
    open_.emplace(key, std::move(request));
    try {
      enter_index(entered);
    } catch (...) {
      open_.erase(key);
      throw;
    }
    for (QueueDepth* const depth : {&depth_, &depths_[entered.tickets.front().model]}) {
      depth->tickets += tickets;
      depth->tokens += tokens;
    }
    ++version_;
  }
  changed_.notify_all();
  return QueueAnswer::kAdmitted;
}

bool TicketQueue::has_room(const WaitingRequest& request) const {
  const RequestState& state = *request.state;
  const QueueLimits limits = limits_of(state.model());
  const size_t tickets = depth_.tickets + request.tickets.size();
  const size_t tokens = depth_.tokens + state.tokens();
  if (depth_.tickets == 0) {
    return tickets <= limits_.tickets_max && tokens <= limits_.tokens_max;
  }
  if (tickets > limits.tickets_max || tokens > limits.tokens_max) {
    return false;
  }
  if (tickets <= limits.tickets_max - limits_.tickets_max / kLightPart &&
      tokens <= limits.tokens_max - limits_.tokens_max / kLightPart) {
    return true;
  }
  double cost = 0;
  for (const WaitingTicket& ticket : request.tickets) {
    cost += index_.cost_of(ticket);
  }
  return index_.turns().stays_light(state.client(), request.tickets.front().model, state.weight(),
                                    cost);
}

/// Without what the other models have not used of their shares.
QueueLimits TicketQueue::limits_of(size_t model) const {
  QueueLimits limits = limits_;
  const size_t parts = kModelsPart * depths_.size();
  for (size_t other = 0; other < depths_.size(); ++other) {
    if (other == model) continue;
    limits.tickets_max -= unused(limits_.tickets_max / parts, depths_[other].tickets);
    limits.tokens_max -= unused(limits_.tokens_max / parts, depths_[other].tokens);
  }
  return limits;
}

/// All tickets or, if it throws, none.
void TicketQueue::enter_index(WaitingRequest& request) {
  size_t entered = 0;
  try {
    for (; entered < request.tickets.size(); ++entered) {
      WaitingTicket& ticket = request.tickets[entered];
      ticket.arrival = arrivals_++;
      index_.add(ticket, request.state->client(), request.state->weight());
      count_cost(ticket, ticket.cost);
    }
  } catch (...) {
    while (entered-- > 0) {
      count_cost(request.tickets[entered], -request.tickets[entered].cost);
      index_.remove(request.tickets[entered], false);
    }
    throw;
  }
}

bool TicketQueue::wait_for_tickets() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stopped_ || depth_.tickets > 0; });
  return !stopped_;
}

bool TicketQueue::has_tickets() const {
  const std::lock_guard lock(mutex_);
  return !stopped_ && depth_.tickets > 0;
}

void TicketQueue::wait_for_change(uint64_t version, Clock::time_point until) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, until, [&] { return stopped_ || version_ != version; });
}

uint64_t TicketQueue::version() const {
  const std::lock_guard lock(mutex_);
  return version_;
}

uint64_t TicketQueue::choose(BatchPolicy& policy, const BatchRules& rules,
                             const std::vector<CostCoefficients>& coefficients,
                             Clock::time_point now, Choice& choice) {
  const std::lock_guard lock(mutex_);
  policy.choose(index_, rules, coefficients, now, choice);
  return version_;
}

bool TicketQueue::dispatch(const Choice& choice) {
  if (choice.tickets.empty()) {
    return false;
  }
  {
    const std::lock_guard lock(mutex_);
    for (const Ticket& ticket : choice.tickets) {
      const auto found = open_.find(ticket.request.get());
      if (found == open_.end() || !found->second->tickets[ticket.index].waiting) {
        return false;
      }
    }
    for (const Ticket& ticket : choice.tickets) {
      leave(open_.find(ticket.request.get())->second->tickets[ticket.index], true);
    }
    index_.advance(choice);
    ++version_;
  }
  changed_.notify_all();
  return true;
}

void TicketQueue::leave(WaitingTicket& ticket, bool dispatched) {
  index_.remove(ticket, dispatched);
  for (QueueDepth* const depth : {&depth_, &depths_[ticket.model]}) {
    --depth->tickets;
    depth->cost = depth->tickets == 0 ? 0 : depth->cost - ticket.cost;  // 0 without rounding errors
    depth->tokens -= ticket.ids.size();
  }
}

void TicketQueue::count_cost(const WaitingTicket& ticket, double cost) {
  depth_.cost += cost;
  depths_[ticket.model].cost += cost;
}

void TicketQueue::ended(const RequestState& state) {
  // Freed after the lock is released: it may hold the last reference to a large request.
  std::unique_ptr<WaitingRequest> gone;
  {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(&state);
    if (found == open_.end()) {
      return;  // it failed before it was admitted
    }
    gone = std::move(found->second);
    open_.erase(found);
    for (WaitingTicket& ticket : gone->tickets) {
      if (ticket.waiting) {
        leave(ticket, false);
        ++version_;
      }
    }
    if (open_.empty()) {
      all_ended_.notify_all();
    }
  }
  changed_.notify_all();
}

void TicketQueue::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

void TicketQueue::stop() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  stopped_ = true;
  changed_.notify_all();
}

bool TicketQueue::wait_until_all_ended(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return all_ended_.wait_until(lock, saturating_deadline(timeout),
                               [this] { return open_.empty(); });
}

std::vector<std::shared_ptr<RequestState>> TicketQueue::open_requests() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<RequestState>> requests;
  requests.reserve(open_.size());
  for (const auto& [key, request] : open_) {
    requests.push_back(request->state);
  }
  return requests;
}

QueueDepth TicketQueue::depth() const {
  const std::lock_guard lock(mutex_);
  return depth_;
}

std::vector<QueueDepth> TicketQueue::depths() const {
  const std::lock_guard lock(mutex_);
  return depths_;
}

}  // namespace espalier::scheduler
