#include "scheduler/pending_request.h"

#include <algorithm>
#include <utility>

#include "scheduler/clock.h"
#include "scheduler/programmer_error.h"
#include "scheduler/ticket_queue.h"

namespace espalier::scheduler {

RequestState::RequestState(Submission submission, std::weak_ptr<TicketQueue> queue,
                           Clock::time_point admitted)
    : submission_(std::move(submission)),
      queue_(std::move(queue)),
      admitted_(admitted),
      remaining_(submission_.sequences.size()) {
  for (const Sequence& sequence : submission_.sequences) {
    tokens_ += sequence.token_ids.size();
  }
  completed_.sequences.resize(submission_.sequences.size());
}

void RequestState::mark_taken(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (!taken_) {
    taken_ = std::max(now, admitted_);  // `now` may have been read before it was admitted
  }
}

void RequestState::fulfil(size_t index, HiddenStates states, size_t new_rows,
                          Clock::time_point now) {
  {
    const std::lock_guard lock(mutex_);
    if (ended()) {
      return;
    }
    completed_.sequences[index] = std::move(states);
    completed_.stats.new_rows += new_rows;
    if (--remaining_ > 0) {
      return;
    }
    const Clock::time_point taken = taken_.value_or(admitted_);
    completed_.stats.tokens = tokens_;
    completed_.stats.queue_seconds = seconds_between(admitted_, taken);
    completed_.stats.compute_seconds = seconds_between(taken, now);
    ended_.store(true, std::memory_order_release);
    outcome_ready_.notify_all();
  }
  tell_queue();
}

bool RequestState::fail(Failure failure) {
  {
    const std::lock_guard lock(mutex_);
    if (ended()) {
      return false;
    }
    failure_ = std::move(failure);
    completed_ = Completed{};  // what is there of a failed request will not be read
    ended_.store(true, std::memory_order_release);
    outcome_ready_.notify_all();
  }
  tell_queue();
  return true;
}

bool RequestState::wait_for(std::chrono::milliseconds timeout) {
  const Clock::time_point until = std::min(saturating_deadline(timeout), deadline());
  {
    std::unique_lock lock(mutex_);
    if (outcome_ready_.wait_until(lock, until, [this] { return ended(); })) {
      return true;
    }
  }
  if (Clock::now() < deadline()) {
    return false;
  }
  fail(deadline_failure());  // or it has ended meanwhile: either way there is an outcome
  return true;
}

Result<Completed> RequestState::take() {
  const std::lock_guard lock(mutex_);
  if (!ended() || outcome_taken_) {
    programmer_error(ended() ? "the outcome of a request was taken twice"
                             : "the outcome of a request was taken before it was there");
  }
  outcome_taken_ = true;
  if (failure_) {
    return tl::unexpected(std::move(*failure_));
  }
  return std::move(completed_);
}

/// Outside mutex_: the queue has a lock of its own, and none is ever taken inside another.
void RequestState::tell_queue() {
  if (const std::shared_ptr<TicketQueue> queue = queue_.lock()) {
    queue->ended(*this);
  }
}

RequestHandle::~RequestHandle() { RequestHandle::cancel(); }

void RequestHandle::cancel() {
  if (!state_->ended()) {
    state_->fail({FailureKind::kCancelled, "the request was cancelled", {}});
  }
}

Failure deadline_failure() {
  return {FailureKind::kDeadline, "the deadline passed before the result was there", {}};
}

Failure shutting_down_failure() {
  return {FailureKind::kShuttingDown, "the server is shutting down", {}};
}

}  // namespace espalier::scheduler
