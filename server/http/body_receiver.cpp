#include "server/http/body_receiver.h"

#include <algorithm>
#include <new>

#include "server/http/connection.h"

namespace espalier::server {
namespace {

/// Of one body, before others get their turn: one thread receives for all of them.
constexpr size_t kTurnBytes = size_t{256} << 10U;
/// A body that has grown so far is believed to be as long as it says.
constexpr size_t kPlaceBytesMin = size_t{1} << 20U;

}  // namespace

BodyReceiver::BodyReceiver(const RequestHead& head, size_t bytes_max,
                           std::chrono::seconds stall_max, BodyBudget& budget)
    : bytes_max_(bytes_max),
      length_(head.body == BodyKind::kLength ? std::min<uint64_t>(head.content_length, bytes_max)
                                             : 0),
      framing_(head),
      clock_(stall_max),
      share_(budget),
      state_(framing_.complete() ? BodyState::kComplete : BodyState::kIncomplete) {}

BodyState BodyReceiver::receive(Connection& connection) {
  size_t received = 0;
  while (state_ == BodyState::kIncomplete) {
    if (!take_buffered(connection)) break;
    if (framing_.complete()) {
      state_ = BodyState::kComplete;
      break;
    }
    if (received >= kTurnBytes) break;
    const auto [status, bytes] = connection.read_some();
    if (status == IoStatus::kWantRead) break;
    if (status != IoStatus::kOk) {
      fail(BodyState::kClosed);
      break;
    }
    received += bytes;
    clock_.moved(bytes);
  }
  return state_;
}

/// Takes the body's part of what the connection has read; false: it failed.
bool BodyReceiver::take_buffered(Connection& connection) {
  while (connection.has_buffered_bytes() && !framing_.complete()) {
    const auto bytes = connection.buffered_bytes();
    const auto taken = bytes.substr(0, framing_.allowance(bytes.size()));
    const bool is_content = framing_.in_content();
    if (!framing_.accept(taken)) {
      fail(BodyState::kMalformed);
      return false;
    }
    if (framing_.content_bytes() > bytes_max_) {
      fail(BodyState::kTooLarge);
      return false;
    }
    try {
      if (is_content && !share_.grow(taken.size())) {
        fail(BodyState::kOverloaded);
        return false;
      }
      if (is_content) append(taken);
    } catch (const std::bad_alloc&) {
      fail(BodyState::kOverloaded);
      return false;
    }
    connection.consume(taken.size());
  }
  return true;
}

/// A large body whose length is known gets its place at once: growing would take it twice. The
/// system gives the memory only as it is written to.
void BodyReceiver::append(std::string_view content) {
  if (content_.size() + content.size() > kPlaceBytesMin) content_.reserve(length_);
  content_.append(content);
}

void BodyReceiver::fail(BodyState state) {
  state_ = state;
  std::string().swap(content_);
}

}  // namespace espalier::server
