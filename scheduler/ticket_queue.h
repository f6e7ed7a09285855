// The bounded queue of waiting tickets, and the book of requests that are not answered yet.
//
// Tickets wait first in, first out, one line a model, because a plan has one model. A batch is
// seeded by the ticket that has waited longest over all models and filled from that model's line
// alone: tickets of other models are passed over for one batch, never for ever, since the longest
// wait decides each time. A line is a list of requests, whose tickets follow one another, so that
// dropping a request costs the same wherever it stands.
//
// A chooser may pass over a ticket; the tickets behind it in its request are then passed over too,
// which could not complete the request without it. So those of a request that wait are always its
// last ones.
//
// Thread contract: every member may be called from any thread. It never calls a request or anyone
// else while it holds its lock, except the TicketChooser of take().
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "scheduler/scheduler.h"
#include "scheduler/ticket.h"

namespace espalier::scheduler {

/// Decides, ticket by ticket, what goes into a batch. Called under the queue's lock: must be quick
/// and must not call the queue.
class TicketChooser {
 public:
  virtual ~TicketChooser() = default;
  /// Whether `ticket` stays where it is, and tickets of other requests may overtake it.
  virtual bool passes_over(const Ticket& /*ticket*/) const { return false; }
  /// Whether the batch has room for `ticket`, which is not passed over; the first refusal closes
  /// the batch.
  virtual bool fits(const Ticket& ticket) const = 0;
  /// The ticket is in the batch.
  virtual void add(const Ticket& ticket) = 0;
};

enum class QueueAnswer : uint8_t { kAdmitted, kFull, kClosed };

class TicketQueue {
 public:
  TicketQueue(size_t models, size_t tickets_max);

  /// Takes in all tickets of `request` or none.
  QueueAnswer admit(std::shared_ptr<RequestState> request);

  /// Waits until there is a ticket; false once stop() was called.
  bool wait_for_tickets();
  /// Whether there is a ticket and stop() was not called.
  bool has_tickets() const;

  /// Moves the tickets of one batch, as `chooser` decides, to the end of `taken`. Tickets whose
  /// turn comes after their deadline leave the queue, and their requests go to `expired`, for the
  /// caller to fail. Whatever `chooser` throws passes through; `taken` then holds all tickets that
  /// have left the queue.
  void take(TicketChooser& chooser, Clock::time_point now, std::vector<Ticket>& taken,
            std::vector<std::shared_ptr<RequestState>>& expired);

  /// `tickets`, as one take() gave them, go back to where they stood, except those whose requests
  /// have ended. No take() may have come in between. The queue may hold more than its limit then.
  void put_back(std::span<const Ticket> tickets);

  /// `request` has its outcome: its tickets leave the queue. Called once by each request that ends.
  void ended(const RequestState& request);

  /// Admits nothing from now on.
  void close();
  /// Wakes wait_for_tickets() for good.
  void stop();

  /// Waits until every admitted request has ended; false if `timeout` comes first.
  bool wait_until_all_ended(std::chrono::milliseconds timeout);
  /// Requests that have not ended, waiting or in a batch.
  std::vector<std::shared_ptr<RequestState>> open_requests() const;

  QueueDepth depth() const;

 private:
  struct Entry {
    std::shared_ptr<RequestState> request;
    uint64_t arrival = 0;
    size_t next = 0;         // its first ticket that waits
    size_t tokens_left = 0;  // of the tickets that wait
    bool waiting = true;     // it stands in its model's line
  };
  using Line = std::list<Entry>;

  enum class Taken : uint8_t { kAll, kPassedOver, kBatchFull };

  size_t model_of_longest_wait() const;
  void leave_line(Line& line, Line::iterator entry);
  void rejoin_line(Line& line, Line::iterator entry);
  Taken take_from(Line& line, Line::iterator entry, TicketChooser& chooser,
                  std::vector<Ticket>& taken);

  const size_t tickets_max_;
  mutable std::mutex mutex_;
  std::condition_variable tickets_waiting_;
  std::condition_variable all_ended_;
  // Guarded by mutex_.
  std::vector<Line> lines_;              // by model
  std::vector<Line::iterator> cursors_;  // by model: how far take() has come
  Line out_of_line_;                     // requests whose tickets are all in batches, or expired
  std::unordered_map<const RequestState*, Line::iterator> open_;
  QueueDepth depth_;
  uint64_t arrivals_ = 0;
  bool closed_ = false;
  bool stopped_ = false;
};

}  // namespace espalier::scheduler
