// Collects the body of a request as it arrives, without waiting for it: a sender that is slow holds
// its connection, but no thread.
//
// Thread contract: like the connection's, one owner at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "server/http/body_budget.h"
#include "server/http/body_framing.h"
#include "server/http/transfer_clock.h"

namespace espalier::server {

class Connection;

enum class BodyState : uint8_t {
  kIncomplete,
  kComplete,
  kMalformed,   // its chunks are
  kTooLarge,    // more content than one body may have
  kOverloaded,  // more content than all bodies together may have
  kClosed,      // the client has closed the connection
  kTimeout,     // it stalls or crawls
};

class BodyReceiver {
 public:
  /// Of a request with `head`: at most `bytes_max` of content, which count in `budget` until this
  /// goes away.
  BodyReceiver(const RequestHead& head, size_t bytes_max, std::chrono::seconds stall_max,
               BodyBudget& budget);

  BodyState state() const { return state_; }
  /// Takes what has arrived, or a good part of it; only while kIncomplete there may be more.
  BodyState receive(Connection& connection);
  /// When the client must have sent more; nothing comes in time if this is zero.
  std::chrono::milliseconds time_left() const { return clock_.time_left(); }
  void time_out() { state_ = BodyState::kTimeout; }

  /// Bytes of content so far, without the frames of chunks, before decoding.
  size_t content_bytes() const { return static_cast<size_t>(framing_.content_bytes()); }
  const std::string& content() const { return content_; }
  std::string take_content() { return std::exchange(content_, {}); }
  BodyBudget::Share& share() { return share_; }

 private:
  bool take_buffered(Connection& connection);
  void append(std::string_view content);
  void fail(BodyState state);

  const size_t bytes_max_;
  const size_t length_;  // that the head says; 0: it does not
  BodyFraming framing_;
  TransferClock clock_;
  BodyBudget::Share share_;
  std::string content_;
  BodyState state_;
};

/// A request whose head has been taken off its connection, and whose body is still coming.
struct PendingRequest {
  explicit PendingRequest(const RequestHead& head, size_t bytes_max, std::chrono::seconds stall_max,
                          BodyBudget& budget)
      : receiver(head, bytes_max, stall_max, budget) {}
  virtual ~PendingRequest() = default;
  PendingRequest(const PendingRequest&) = delete;
  PendingRequest& operator=(const PendingRequest&) = delete;

  BodyReceiver receiver;
};

}  // namespace espalier::server
