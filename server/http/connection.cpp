#include "server/http/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace espalier::server {
namespace {

/// Slower transfers are cut off, after the time that they may stall: at this rate a body of 32 MiB,
/// or as long an answer, holds a thread for a quarter of an hour.
constexpr size_t kSlowestBytesPerSecond = size_t{32} << 10U;
constexpr size_t kReadBytes = size_t{16} << 10U;

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

/// Waits for `events`; false when the time is up.
bool wait_for(int fd, int events, std::chrono::milliseconds timeout) {
  pollfd entry{fd, static_cast<short>(events), 0};
  // A signal only ends the wait early: the caller tries again within its own clock.
  return ::poll(&entry, 1, static_cast<int>(timeout.count())) != 0;
}

}  // namespace

std::chrono::milliseconds TransferClock::time_left() const {
  using std::chrono::duration_cast;
  using std::chrono::milliseconds;
  const auto stall_end = last_moved_ + stall_max_;
  const auto crawl_end =
      start_ + stall_max_ + std::chrono::seconds(bytes_ / kSlowestBytesPerSecond);
  const auto left = std::min(stall_end, crawl_end) - SteadyClock::now();
  return std::max(milliseconds(0), duration_cast<milliseconds>(left));
}

bool Connection::read_available() {
  while (buffer_.size() - start_ <= kHeadBytesMax) {
    std::array<char, kReadBytes> bytes;
    const ssize_t count = ::recv(fd(), bytes.data(), bytes.size(), 0);
    if (count > 0) {
      buffer_.append(bytes.data(), static_cast<size_t>(count));
      if (static_cast<size_t>(count) < bytes.size()) return true;
    } else if (count < 0 && errno == EINTR) {
      continue;
    } else {
      return count < 0 && would_block(errno);
    }
  }
  return true;
}

HeadState Connection::head_state() {
  // Empty lines before a request line are allowed (RFC 9112, section 2.2).
  while (buffered().starts_with("\r\n")) consume(2);
  if (buffered() == "\r") return HeadState::kIncomplete;
  return find_head(buffered(), head_scanned_).state;
}

std::string Connection::take_head() {
  size_t scanned = 0;
  const auto extent = find_head(buffered(), scanned);
  const size_t bytes = extent.state == HeadState::kComplete ? extent.bytes : buffered().size();
  std::string head(buffered().substr(0, bytes));
  consume(bytes);
  return head;
}

void Connection::consume(size_t bytes) {
  start_ += bytes;
  head_scanned_ = 0;
  if (start_ == buffer_.size()) {
    buffer_.clear();
    start_ = 0;
  } else if (start_ > kHeadBytesMax) {
    buffer_.erase(0, start_);
    start_ = 0;
  }
}

Connection::ReadResult Connection::read(char* to, size_t size, TransferClock& clock) {
  while (!has_buffered_bytes()) {
    const auto left = clock.time_left();
    if (left.count() == 0) return {TransferStatus::kTimeout, 0};
    if (!wait_for(fd(), POLLIN, left)) continue;
    std::array<char, kReadBytes> bytes;
    const ssize_t count = ::recv(fd(), bytes.data(), bytes.size(), 0);
    if (count > 0) {
      buffer_.assign(bytes.data(), static_cast<size_t>(count));
      start_ = 0;
      clock.moved(static_cast<size_t>(count));
    } else if (count == 0 || (errno != EINTR && !would_block(errno))) {
      return {TransferStatus::kClosed, 0};
    }
  }
  const auto taken = buffered().substr(0, size);
  const size_t bytes = taken.copy(to, taken.size());
  consume(bytes);
  return {TransferStatus::kOk, bytes};
}

TransferStatus Connection::write(std::string_view bytes, TransferClock& clock) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count >= 0) {
      bytes.remove_prefix(static_cast<size_t>(count));
      clock.moved(static_cast<size_t>(count));
      continue;
    }
    if (errno == EINTR) continue;
    if (!would_block(errno)) return TransferStatus::kClosed;
    const auto left = clock.time_left();
    if (left.count() == 0) return TransferStatus::kTimeout;
    wait_for(fd(), POLLOUT, left);
  }
  return TransferStatus::kOk;
}

bool Connection::peer_gone() const {
  pollfd entry{fd(), POLLRDHUP, 0};
  return ::poll(&entry, 1, 0) > 0 && (entry.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

void Connection::close_lingering(std::chrono::milliseconds patience) {
  if (!socket_.is_open()) return;
  if (::shutdown(fd(), SHUT_WR) == 0) {
    const auto end = SteadyClock::now() + patience;
    std::array<char, kReadBytes> discarded;
    while (SteadyClock::now() < end) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - SteadyClock::now());
      if (!wait_for(fd(), POLLIN, left)) break;
      const ssize_t count = ::recv(fd(), discarded.data(), discarded.size(), 0);
      if (count == 0 || (count < 0 && errno != EINTR && !would_block(errno))) break;
    }
  }
  socket_.reset();
}

}  // namespace espalier::server
