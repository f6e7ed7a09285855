#include "server/http/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "server/http/body_receiver.h"

namespace espalier::server {
namespace {

/// As much as a TLS record holds, so that none is left over in the session, which no event of the
/// socket would tell of.
constexpr size_t kReadBytes = size_t{16} << 10U;
/// Buffers of connections that are parked are dropped beyond it.
constexpr size_t kKeptBytes = size_t{1} << 10U;
/// At one time, from a client that keeps sending while its connection is being closed.
constexpr size_t kDiscardReads = 64;
/// How long a thread waits for a client that does not read its answer, when those of others take
/// all the memory that there is for such answers. Longer, and such clients would take all threads,
/// too.
constexpr std::chrono::milliseconds kRoomWait{2000};
/// How often it looks whether there is room by now.
constexpr std::chrono::milliseconds kRoomPoll{50};
/// The first byte of a TLS handshake.
constexpr char kHandshakeRecord = 0x16;

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

IoResult receive(int fd, char* to, size_t size, int flags = 0) {
  while (true) {
    const ssize_t count = ::recv(fd, to, size, flags);
    if (count > 0) return {IoStatus::kOk, static_cast<size_t>(count)};
    if (count < 0 && errno == EINTR) continue;
    return {count < 0 && would_block(errno) ? IoStatus::kWantRead : IoStatus::kClosed, 0};
  }
}

IoResult send_some(int fd, std::string_view bytes) {
  while (true) {
    const ssize_t count = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count >= 0) return {IoStatus::kOk, static_cast<size_t>(count)};
    if (errno == EINTR) continue;
    return {would_block(errno) ? IoStatus::kWantWrite : IoStatus::kClosed, 0};
  }
}

}  // namespace

Connection::Connection(FileDescriptor socket, size_t head_bytes_max,
                       std::unique_ptr<TlsSession> tls)
    : socket_(std::move(socket)),
      tls_(std::move(tls)),
      head_bytes_max_(head_bytes_max),
      in_handshake_(tls_ != nullptr) {}

Connection::~Connection() = default;

Connection::Handshake Connection::shake_hands() {
  if (!in_handshake_) return Handshake::kDone;
  if (!handshake_begun_) {
    char first = 0;
    const auto peeked = receive(fd(), &first, 1, MSG_PEEK).status;
    if (peeked == IoStatus::kWantRead) return Handshake::kWantRead;
    if (peeked != IoStatus::kOk) return Handshake::kFailed;
    if (first != kHandshakeRecord) {
      tls_.reset();
      in_handshake_ = false;
      refused_plain_text_ = true;
      return Handshake::kPlainText;
    }
    handshake_begun_ = true;
  }
  switch (tls_->handshake()) {
    case IoStatus::kOk:
      in_handshake_ = false;
      return Handshake::kDone;
    case IoStatus::kWantRead:
      return Handshake::kWantRead;
    case IoStatus::kWantWrite:
      return Handshake::kWantWrite;
    case IoStatus::kClosed:
      break;
  }
  return Handshake::kFailed;
}

IoResult Connection::read_some() {
  std::array<char, kReadBytes> bytes;
  size_t total = 0;
  do {
    auto [status, count] = tls_ != nullptr ? tls_->read(bytes.data(), bytes.size())
                                           : receive(fd(), bytes.data(), bytes.size());
    // A client whose messages about keys need an answer, and that reads nothing.
    if (status == IoStatus::kWantWrite) status = IoStatus::kClosed;
    if (status != IoStatus::kOk) return {total > 0 ? IoStatus::kOk : status, total};
    buffer_.append(bytes.data(), count);
    total += count;
  } while (tls_ != nullptr && tls_->has_pending());
  return {IoStatus::kOk, total};
}

bool Connection::read_available() {
  while (buffered_bytes().size() <= head_bytes_max_) {
    const auto status = read_some().status;
    if (status == IoStatus::kWantRead) return true;
    if (status != IoStatus::kOk) return false;
  }
  return true;
}

bool Connection::has_unread_bytes() const {
  char byte = 0;
  return receive(fd(), &byte, 1, MSG_PEEK).status == IoStatus::kOk;
}

HeadState Connection::head_state() {
  // Empty lines before a request line are allowed (RFC 9112, section 2.2).
  while (buffered_bytes().starts_with("\r\n")) consume(2);
  if (buffered_bytes() == "\r") return HeadState::kIncomplete;
  return find_head(buffered_bytes(), head_scanned_, head_bytes_max_).state;
}

std::string Connection::take_head() {
  size_t scanned = 0;
  const auto extent = find_head(buffered_bytes(), scanned, head_bytes_max_);
  const size_t bytes =
      extent.state == HeadState::kComplete ? extent.bytes : buffered_bytes().size();
  std::string head(buffered_bytes().substr(0, bytes));
  consume(bytes);
  return head;
}

void Connection::consume(size_t bytes) {
  start_ += bytes;
  head_scanned_ = 0;
  if (start_ == buffer_.size()) {
    buffer_.clear();
    start_ = 0;
  } else if (start_ > head_bytes_max_) {
    buffer_.erase(0, start_);
    start_ = 0;
  }
}

void Connection::shrink() {
  if (buffer_.empty() && buffer_.capacity() > kKeptBytes) std::string().swap(buffer_);
}

IoResult Connection::write_some(std::string_view bytes) {
  auto [status, count] = tls_ != nullptr ? tls_->write(bytes) : send_some(fd(), bytes);
  // To read before it can write is what only a renegotiation needs, which there is none of.
  if (status == IoStatus::kWantRead) status = IoStatus::kClosed;
  return {status, count};
}

TransferStatus Connection::write(std::string_view bytes, BodyBudget& budget,
                                 std::chrono::seconds stall_max) {
  const auto gives_up_at =
      SteadyClock::now() + std::min<SteadyClock::duration>(kRoomWait, stall_max);
  while (true) {
    const IoStatus status = send_before_and(bytes);
    if (status == IoStatus::kOk) return TransferStatus::kOk;
    if (status == IoStatus::kClosed) return TransferStatus::kClosed;
    if (!unsent_share_) unsent_share_.emplace(budget);
    if (!send_clock_) send_clock_.emplace(stall_max);
    if (unsent_share_->grow(bytes.size())) {
      unsent_.append(bytes);
      return TransferStatus::kOk;
    }
    if (SteadyClock::now() >= gives_up_at) return TransferStatus::kTimeout;
    pollfd entry{fd(), POLLOUT, 0};
    // A signal only ends the wait early.
    ::poll(&entry, 1, static_cast<int>(kRoomPoll.count()));
  }
}

/// What is unsent, then `bytes`, of which those that were sent are taken off.
IoStatus Connection::send_before_and(std::string_view& bytes) {
  if (has_unsent()) {
    const IoStatus status = send_unsent();
    if (status != IoStatus::kOk) return status;
  }
  while (!bytes.empty()) {
    const auto [status, count] = write_some(bytes);
    if (status != IoStatus::kOk) return status;
    bytes.remove_prefix(count);
  }
  return IoStatus::kOk;
}

IoStatus Connection::send_unsent() {
  while (has_unsent()) {
    const auto [status, count] = write_some(std::string_view(unsent_).substr(sent_));
    if (status != IoStatus::kOk) return status;
    sent_ += count;
    send_clock_->moved(count);
  }
  std::string().swap(unsent_);
  sent_ = 0;
  unsent_share_.reset();
  send_clock_.reset();
  return IoStatus::kOk;
}

std::chrono::milliseconds Connection::send_time_left() const {
  return send_clock_ ? send_clock_->time_left() : std::chrono::milliseconds(0);
}

bool Connection::peer_gone() const {
  pollfd entry{fd(), POLLRDHUP, 0};
  return ::poll(&entry, 1, 0) > 0 && (entry.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

void Connection::begin_lingering() {
  lingering_ = true;
  if (tls_ != nullptr) tls_->send_close();
  ::shutdown(fd(), SHUT_WR);
}

bool Connection::discard_available() {
  std::array<char, kReadBytes> discarded;
  for (size_t reads = 0; reads < kDiscardReads; ++reads) {
    const auto status = receive(fd(), discarded.data(), discarded.size()).status;
    if (status == IoStatus::kWantRead) return true;
    if (status != IoStatus::kOk) return false;
  }
  return true;
}

}  // namespace espalier::server
