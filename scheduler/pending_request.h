// One request from admission to its outcome, shared by the front end, the queue and the pipeline.
//
// It ends exactly once: with all its sequences computed, or with the first failure. Deadlines are
// enforced at two places: wait_for() ends a request whose deadline passes while somebody waits, and
// the queue drops expired tickets when the planner comes to them, for those that nobody waits for.
//
// Thread contract: every member may be called from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "scheduler/request.h"
#include "scheduler/scheduler.h"

namespace espalier::scheduler {

class TicketQueue;

class RequestState {
 public:
  /// `queue` is told when the request ends.
  RequestState(Submission submission, std::weak_ptr<TicketQueue> queue, Clock::time_point admitted);

  size_t model() const { return submission_.model; }
  uint64_t tenant() const { return submission_.tenant; }
  uint64_t client() const { return submission_.client; }
  double weight() const { return submission_.weight; }
  const std::vector<Sequence>& sequences() const { return submission_.sequences; }
  size_t tokens() const { return tokens_; }
  Clock::time_point deadline() const { return submission_.deadline; }
  Clock::time_point admitted() const { return admitted_; }

  /// It has its outcome: whatever is still computed for it goes unread.
  bool ended() const { return ended_.load(std::memory_order_acquire); }

  /// A sequence was taken into a batch; the first time counts.
  void mark_taken(Clock::time_point now);
  /// The hidden states of sequence `index`, once each, and the rows that were computed on its
  /// account; the last one completes the request.
  void fulfil(size_t index, HiddenStates states, size_t new_rows, Clock::time_point now);
  /// Ends the request unless it has ended; true if this call did.
  bool fail(Failure failure);

  bool wait_for(std::chrono::milliseconds timeout);
  Result<Completed> take();

 private:
  void tell_queue();

  const Submission submission_;
  const std::weak_ptr<TicketQueue> queue_;
  const Clock::time_point admitted_;
  size_t tokens_ = 0;

  std::atomic<bool> ended_{false};  // written under mutex_
  std::mutex mutex_;
  std::condition_variable outcome_ready_;
  // Guarded by mutex_.
  std::optional<Clock::time_point> taken_;
  size_t remaining_;
  Completed completed_;
  std::optional<Failure> failure_;
  bool outcome_taken_ = false;
};

/// What the front end holds. Letting go of it cancels the request: nobody can read the result any
/// more.
class RequestHandle final : public PendingRequest {
 public:
  explicit RequestHandle(std::shared_ptr<RequestState> state) : state_(std::move(state)) {}
  ~RequestHandle() override;
  RequestHandle(const RequestHandle&) = delete;
  RequestHandle& operator=(const RequestHandle&) = delete;

  bool wait_for(std::chrono::milliseconds timeout) override { return state_->wait_for(timeout); }
  void cancel() override;
  Result<Completed> take() override { return state_->take(); }

 private:
  std::shared_ptr<RequestState> state_;
};

/// Failures that more than one place may answer with.
Failure deadline_failure();
Failure shutting_down_failure();

}  // namespace espalier::scheduler
