#include "scheduler/ticket_queue.h"

#include <algorithm>
#include <utility>

#include "scheduler/clock.h"
#include "scheduler/programmer_error.h"

namespace espalier::scheduler {

TicketQueue::TicketQueue(size_t models, size_t tickets_max)
    : tickets_max_(tickets_max), lines_(models), cursors_(models) {}

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
    if (depth_.tickets + tickets > tickets_max_) {
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

bool TicketQueue::has_tickets() const {
  const std::lock_guard lock(mutex_);
  return !stopped_ && depth_.tickets > 0;
}

void TicketQueue::take(TicketChooser& chooser, Clock::time_point now, std::vector<Ticket>& taken,
                       std::vector<std::shared_ptr<RequestState>>& expired) {
  const std::lock_guard lock(mutex_);
  for (size_t m = 0; m < lines_.size(); ++m) {
    cursors_[m] = lines_[m].begin();
  }
  const size_t taken_before = taken.size();
  size_t model = 0;
  for (;;) {
    if (taken.size() == taken_before) {  // else the batch has its model
      model = model_of_longest_wait();
    }
    if (model == lines_.size() || cursors_[model] == lines_[model].end()) {
      return;
    }
    Line& line = lines_[model];
    const Line::iterator entry = cursors_[model]++;
    if (entry->request->ended()) {
      leave_line(line, entry);
    } else if (entry->request->deadline() <= now) {
      expired.push_back(entry->request);
      leave_line(line, entry);
    } else if (take_from(line, entry, chooser, taken) == Taken::kBatchFull) {
      return;
    }
  }
}

/// Takes the tickets of `entry` until one is refused or passed over.
TicketQueue::Taken TicketQueue::take_from(Line& line, Line::iterator entry, TicketChooser& chooser,
                                          std::vector<Ticket>& taken) {
  const size_t tickets = entry->request->sequences().size();
  while (entry->next < tickets) {
    taken.push_back({entry->request, entry->next});
    const Ticket& ticket = taken.back();
    const bool passed_over = chooser.passes_over(ticket);
    if (passed_over || !chooser.fits(ticket)) {
      taken.pop_back();
      return passed_over ? Taken::kPassedOver : Taken::kBatchFull;
    }
    const size_t tokens = ticket.token_ids().size();
    ++entry->next;
    entry->tokens_left -= tokens;
    --depth_.tickets;
    depth_.tokens -= tokens;
    chooser.add(ticket);
  }
  leave_line(line, entry);
  return Taken::kAll;
}

void TicketQueue::put_back(std::span<const Ticket> tickets) {
  {
    const std::lock_guard lock(mutex_);
    for (auto ticket = tickets.rbegin(); ticket != tickets.rend(); ++ticket) {
      const auto found = open_.find(ticket->request.get());
      if (found == open_.end()) {
        continue;  // it has ended
      }
      const Line::iterator entry = found->second;
      if (entry->next != ticket->index + 1) {
        programmer_error("a ticket was put back out of turn", ticket->index, entry->next);
      }
      const size_t tokens = ticket->token_ids().size();
      --entry->next;
      entry->tokens_left += tokens;
      ++depth_.tickets;
      depth_.tokens += tokens;
      if (!entry->waiting) {
        rejoin_line(lines_[entry->request->model()], entry);
      }
    }
  }
  tickets_waiting_.notify_one();
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

/// By the requests at the cursors; the number of models if all lines have been gone through.
size_t TicketQueue::model_of_longest_wait() const {
  size_t longest = lines_.size();
  for (size_t m = 0; m < lines_.size(); ++m) {
    if (cursors_[m] != lines_[m].end() &&
        (longest == lines_.size() || cursors_[m]->arrival < cursors_[longest]->arrival)) {
      longest = m;
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

/// `entry` stands in line again, by its arrival: near the head, since it has been taken before.
void TicketQueue::rejoin_line(Line& line, Line::iterator entry) {
  const auto behind = std::find_if(
      line.begin(), line.end(), [&](const Entry& other) { return other.arrival > entry->arrival; });
  entry->waiting = true;
  line.splice(behind, out_of_line_, entry);
}

}  // namespace espalier::scheduler
