// The bounded queue of waiting tickets, and the book of requests that are not answered yet.
//
// A batch is *chosen* first, which leaves its tickets where they are, and *dispatched* later, when
// the worker is about to need it: until then its tickets can still be given up by their clients, or
// chosen anew together with others that have come meanwhile. The version tells whether any have.
//
// A part of the queue is kept for light clients (turn_order.h): whoever sends little finds room in
// a queue that others have filled. Of several models each has a share that what waits for the
// others never takes: the backlog of a slow one must not turn away what a fast one would do at
// once.
//
// Thread contract: every member may be called from any thread. It never calls a request or anyone
// else while it holds its lock, except the BatchPolicy of choose().
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "scheduler/batch_policy.h"
#include "scheduler/scheduler.h"
#include "scheduler/ticket.h"
#include "scheduler/waiting_index.h"

namespace espalier::scheduler {

enum class QueueAnswer : uint8_t { kAdmitted, kFull, kClosed };

struct QueueLimits {
  size_t tickets_max = 0;
  size_t tokens_max = 0;
};

class TicketQueue {
 public:
  /// `costs` by model.
  TicketQueue(const QueueLimits& limits, const TurnRules& rules, std::vector<PassCosts> costs);

  /// Takes in all tickets of `request` or none.
  QueueAnswer admit(std::shared_ptr<RequestState> request);

  /// Waits until there is a ticket; false once stop() was called.
  bool wait_for_tickets();
  /// Whether there is a ticket and stop() was not called.
  bool has_tickets() const;
  /// Waits until the version is no longer `version`, stop() was called, or `until` has come.
  void wait_for_change(uint64_t version, Clock::time_point until);
  /// Changes when tickets come or leave.
  uint64_t version() const;

  /// Chooses a batch of what waits now, for dispatch() (or not); returns the version that it saw.
  /// Whatever `policy` throws passes through.
  uint64_t choose(BatchPolicy& policy, const BatchRules& rules,
                  const std::vector<CostCoefficients>& coefficients, Clock::time_point now,
                  Choice& choice);
  /// The tickets of `choice` leave the queue; false, and nothing happens, if there are none or one
  /// of them waits no longer.
  bool dispatch(const Choice& choice);

  /// `request` has its outcome: its tickets leave the queue. Called once by each request that ends.
  void ended(const RequestState& request);

  /// Admits nothing from now on.
  void close();
  /// Wakes everybody for good.
  void stop();

  /// Waits until every admitted request has ended; false if `timeout` comes first.
  bool wait_until_all_ended(std::chrono::milliseconds timeout);
  /// Requests that have not ended, waiting or in a batch.
  std::vector<std::shared_ptr<RequestState>> open_requests() const;

  QueueDepth depth() const;
  std::vector<QueueDepth> depths() const;  // by model

 private:
  bool has_room(const WaitingRequest& request) const;
  QueueLimits limits_of(size_t model) const;
  void enter_index(WaitingRequest& request);
  void leave(WaitingTicket& ticket, bool dispatched);
  void count_cost(const WaitingTicket& ticket, double cost);

  const QueueLimits limits_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;  // tickets have come or left, or it was stopped
  std::condition_variable all_ended_;
  // Guarded by mutex_.
  QueueDepth depth_;                // of all models
  std::vector<QueueDepth> depths_;  // by model
  WaitingIndex index_;
  std::unordered_map<const RequestState*, std::unique_ptr<WaitingRequest>> open_;
  uint64_t arrivals_ = 0;
  uint64_t version_ = 0;
  bool closed_ = false;
  bool stopped_ = false;
};

}  // namespace espalier::scheduler
