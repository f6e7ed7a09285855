#include "scheduler/ticket_queue.h"

#include <utility>

#include "scheduler/clock.h"

namespace espalier::scheduler {

TicketQueue::TicketQueue(size_t models, size_t tickets_max)
    : tickets_max_(tickets_max), lines_(models) {}

QueueAnswer TicketQueue::admit(std::shared_ptr<RequestState> request) {
  const size_t tickets = request->sequences().size();
  const size_t tokens = request->tokens();
  Line& line = lines_[request->model()];
  const RequestState* key = request.get();
  Line entry;
  entry.push_back({std::move(request), 0, 0, tokens, true});
  {
    const std::lock_guard lock(mutex_);
    if (closed_) {
      return QueueAnswer::kClosed;
    }
    if (tickets > tickets_max_ - depth_.tickets) {
      return QueueAnswer::kFull;
    }
    entry.front().arrival = arrivals_;
    open_.emplace(key, entry.begin());  // the last step that may throw
    line.splice(line.end(), entry);
    ++arrivals_;
    depth_.tickets += tickets;
    depth_.tokens += tokens;
  }
  tickets_waiting_.notify_one();
  return QueueAnswer::kAdmitted;
}

bool TicketQueue::wait_for_tickets() {
  std::unique_lock lock(mutex_);
  tickets_waiting_.wait(lock, [this] { return stopped_ || depth_.tickets > 0; });
  return !stopped_;
}

void TicketQueue::take(TicketChooser& chooser, Clock::time_point now, std::vector<Ticket>& taken,
                       std::vector<std::shared_ptr<RequestState>>& expired) {
  const std::lock_guard lock(mutex_);
  Line* seeded = nullptr;  // the line that the batch is filled from, once it has a ticket
  for (;;) {
    Line* line = seeded != nullptr ? seeded : line_of_longest_wait();
    if (line == nullptr || line->empty()) {
      return;
    }
    const RequestState& head = *line->front().request;
    if (head.ended()) {
      leave_line(*line, line->begin());
    } else if (head.deadline() <= now) {
      expired.push_back(line->front().request);
      leave_line(*line, line->begin());
    } else {
      seeded = line;
      if (!take_from_head(*line, chooser, taken)) {
        return;
      }
    }
  }
}

/// Takes the tickets of the line's first request; false when the batch is full.
bool TicketQueue::take_from_head(Line& line, TicketChooser& chooser, std::vector<Ticket>& taken) {
  Entry& entry = line.front();
  const size_t tickets = entry.request->sequences().size();
  while (entry.next < tickets) {
    taken.push_back({entry.request, entry.next});
    const Ticket& ticket = taken.back();
    if (!chooser.fits(ticket)) {
      taken.pop_back();
      return false;
    }
    const size_t tokens = ticket.token_ids().size();
    ++entry.next;
    entry.tokens_left -= tokens;
    --depth_.tickets;
    depth_.tokens -= tokens;
    chooser.add(ticket);
  }
  leave_line(line, line.begin());
  return true;
}

void TicketQueue::ended(const RequestState& request) {
  Line gone;  // freed after the lock is released: it may hold the last reference to a large request
  {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(&request);
    if (found == open_.end()) {
      return;  // it failed before it was admitted
    }
    const Line::iterator entry = found->second;
    if (entry->waiting) {
      leave_line(lines_[request.model()], entry);
    }
    gone.splice(gone.end(), out_of_line_, entry);
    open_.erase(found);
    if (open_.empty()) {
      all_ended_.notify_all();
    }
  }
}

void TicketQueue::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

void TicketQueue::stop() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  stopped_ = true;
  tickets_waiting_.notify_all();
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
  for (const auto& [key, entry] : open_) {
    requests.push_back(entry->request);
  }
  return requests;
}

QueueDepth TicketQueue::depth() const {
  const std::lock_guard lock(mutex_);
  return depth_;
}

TicketQueue::Line* TicketQueue::line_of_longest_wait() {
  Line* longest = nullptr;
  for (Line& line : lines_) {
    if (!line.empty() && (longest == nullptr || line.front().arrival < longest->front().arrival)) {
      longest = &line;
    }
  }
  return longest;
}

/// The tickets that `entry` still has in the queue leave it; the request stays open until it ends.
void TicketQueue::leave_line(Line& line, Line::iterator entry) {
  depth_.tickets -= entry->request->sequences().size() - entry->next;
  depth_.tokens -= entry->tokens_left;
  entry->tokens_left = 0;
  entry->next = entry->request->sequences().size();
  entry->waiting = false;
  out_of_line_.splice(out_of_line_.end(), line, entry);
}

}  // namespace espalier::scheduler
