#include "server/http/connection_loop.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <system_error>
#include <utility>

#include "server/http/body_receiver.h"

namespace espalier::server {
namespace {

/// After running out of descriptors or memory: an accept that fails at once would spin.
constexpr std::chrono::milliseconds kAcceptPause{100};
/// How long connections may still send a request after stop(). One that is in use, as a proxy keeps
/// them, sends its next one within it, and the answer says that it was the last; were it closed at
/// once, a request on its way would be lost, and its client could not tell whether it was computed.
constexpr std::chrono::milliseconds kDrainGrace{500};
/// How long slow clients may still take after abandon().
constexpr std::chrono::milliseconds kAbandonGrace{1000};
constexpr std::chrono::milliseconds kExpiryScan{500};
constexpr std::chrono::milliseconds kDrainScan{100};
/// How long a client may take to read an answer that was sent before its whole request was.
constexpr std::chrono::milliseconds kLingerMax{2000};
/// Of an answer that the kernel holds for a connection beyond what is on its way. Left to itself it
/// takes megabytes for a client that has read quickly and then stops; control groups of version 2
/// count them. What it does not take is counted as unsent. Most answers fit, and those on their way
/// are as many as the network takes.
constexpr int kKernelUnsentBytes = 64 << 10U;
/// Between warnings that no more connections fit.
constexpr std::chrono::minutes kWarningPause{1};
/// One in so many idle connections is closed to make room.
constexpr size_t kRoomPart = 64;

void add_to(const FileDescriptor& epoll, int fd, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    throw std::system_error(errno, std::generic_category(), "epoll_ctl");
}

void remove_from(const FileDescriptor& epoll, int fd) {
  ::epoll_ctl(epoll.get(), EPOLL_CTL_DEL, fd, nullptr);
}

/// A client waits to be accepted.
bool is_readable(const FileDescriptor& listener) {
  pollfd entry{listener.get(), POLLIN, 0};
  return ::poll(&entry, 1, 0) > 0;
}

}  // namespace

ConnectionLoop::ConnectionLoop(ConnectionLoopLimits limits, std::shared_ptr<const TlsContext> tls,
                               Dispatch dispatch)
    : limits_(limits),
      tls_(std::move(tls)),
      dispatch_(std::move(dispatch)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!epoll_.is_open() || !wake_event_.is_open())
    throw std::system_error(errno, std::generic_category(), "epoll_create1 or eventfd");
  add_to(epoll_, wake_event_.get(), EPOLLIN);
}

void ConnectionLoop::wake() {
  const uint64_t one = 1;
  // It can only fail when the counter is full, and then the loop is awake.
  [[maybe_unused]] const auto written = ::write(wake_event_.get(), &one, sizeof(one));
}

void ConnectionLoop::stop() {
  stopping_ = true;
  wake();
}

void ConnectionLoop::abandon() {
  abandoning_ = true;
  wake();
}

void ConnectionLoop::give_back(std::unique_ptr<Connection> connection) {
  {
    const std::lock_guard lock(mutex_);
    returned_.push_back(std::move(connection));
  }
  wake();
}

void ConnectionLoop::closed() {
  {
    const std::lock_guard lock(mutex_);
    ++closed_;
  }
  wake();
}

void ConnectionLoop::run(FileDescriptor listener) {
  listener_ = std::move(listener);
  pause_accepting(false);
  std::array<epoll_event, 64> events;
  while (true) {
    collect_returned();
    if (stopping() && !draining_) begin_drain();
    if (abandoning_ && all_close_at_ == SteadyClock::time_point::max()) begin_abandoning();
    if (draining_ && parked_.empty() && dispatched_ == 0) return;
    const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), timeout_ms());
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<size_t>(i)].data.fd;
      if (fd == wake_event_.get()) {
        uint64_t wakes = 0;
        [[maybe_unused]] const auto bytes = ::read(fd, &wakes, sizeof(wakes));
      } else if (fd == listener_.get()) {
        accept_waiting();
      } else {
        on_event(fd);
      }
    }
    close_expired();
  }
}

int ConnectionLoop::timeout_ms() const {
  if (parked_.empty() && (accepting_ || draining_)) return -1;
  return static_cast<int>((accepting_ ? kExpiryScan : kAcceptPause).count());
}

void ConnectionLoop::collect_returned() {
  std::vector<std::unique_ptr<Connection>> returned;
  {
    const std::lock_guard lock(mutex_);
    returned.swap(returned_);
    dispatched_ -= std::exchange(closed_, 0);
  }
  dispatched_ -= returned.size();
  for (auto& connection : returned) park(std::move(connection));
}

void ConnectionLoop::pause_accepting(bool pause) {
  if (pause == !accepting_ || !listener_.is_open()) return;
  if (pause) {
    remove_from(epoll_, listener_.get());
    accepts_again_at_ = SteadyClock::now() + kAcceptPause;
  } else {
    add_to(epoll_, listener_.get(), EPOLLIN);
  }
  accepting_ = !pause;
}

void ConnectionLoop::accept_waiting() {
  while (true) {
    // One more than there may be can have come in, when there was no room to be made.
    if (open_connections() > limits_.connections_max) {
      if (!is_readable(listener_)) return;
      if (!make_room()) return pause_accepting(true);
    }
    FileDescriptor socket(
        ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.is_open()) {
      if (open_connections() >= limits_.connections_max) make_room();
      take_in(std::move(socket));
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return;
    const bool exhausted =
        errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    // Any other error is about the one connection that was to be accepted.
    if (exhausted && !make_room()) return pause_accepting(true);
  }
}

void ConnectionLoop::take_in(FileDescriptor socket) {
  const int yes = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kKernelUnsentBytes,
               sizeof(kKernelUnsentBytes));
  try {
    auto session = tls_ != nullptr ? tls_->session(socket.get()) : nullptr;
    park(std::make_unique<Connection>(std::move(socket), limits_.head_bytes_max,
                                      std::move(session)));
  } catch (const std::bad_alloc&) {
    // Dropped; the others live on.
  }
}

/// Closes some of the connections that have waited longest for a request, or, if none is idle, for
/// the rest of a head or a handshake. False: there are none.
bool ConnectionLoop::make_room() {
  std::vector<std::pair<SteadyClock::time_point, int>> idle;
  std::vector<std::pair<SteadyClock::time_point, int>> unfinished;
  for (const auto& [fd, parked] : parked_) {
    if (parked.phase == Phase::kHead && !parked.has_partial_head) {
      idle.emplace_back(parked.since, fd);
    } else if (parked.phase == Phase::kHead || parked.phase == Phase::kHandshake) {
      unfinished.emplace_back(parked.since, fd);
    }
  }
  if (idle.empty()) idle.swap(unfinished);
  if (const auto now = SteadyClock::now(); now >= warns_again_at_) {
    warns_again_at_ = now + kWarningPause;
    spdlog::warn(
        "{} connections are open, as many as may be: {}. More memory or a higher limit of open "
        "files (ulimit -n), whichever is short, lets more in",
        open_connections(),
        idle.empty() ? "all are in use, so new ones wait"
                     : "those that have waited longest for a request are closed for new ones");
  }
  if (idle.empty()) return false;
  // Several at once: under a flood of connections, looking for the one would be most of the work.
  const size_t count = 1 + idle.size() / kRoomPart;
  std::nth_element(idle.begin(), idle.begin() + static_cast<ptrdiff_t>(count - 1), idle.end());
  bool closed_one = false;
  for (size_t i = 0; i < count; ++i) {
    // Its request may have come, and not been looked at yet.
    if (parked_.at(idle[i].second).connection->has_unread_bytes()) continue;
    unpark(idle[i].second);
    closed_one = true;
  }
  return closed_one;
}

void ConnectionLoop::park(std::unique_ptr<Connection> connection) {
  const int fd = connection->fd();
  connection->shrink();
  epoll_event event{};
  event.events = connection->has_unsent() ? uint32_t{EPOLLOUT} : EPOLLIN | EPOLLRDHUP;
  event.data.fd = fd;
  // The kernel has no room for one more: this connection is dropped, the others live on.
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return;
  const auto now = SteadyClock::now();
  Parked parked{std::move(connection), Phase::kHead, now, now + limits_.idle_max};
  if (parked.connection->has_unsent()) {
    parked.phase = Phase::kSending;
    parked.closes_at = now + parked.connection->send_time_left();
  } else if (parked.connection->is_lingering()) {
    parked.phase = Phase::kLingering;
    parked.closes_at = now + kLingerMax;
  } else if (parked.connection->in_handshake()) {
    parked.phase = Phase::kHandshake;
    parked.closes_at = now + limits_.head_max;
  } else if (parked.connection->pending != nullptr) {
    parked.phase = Phase::kBody;
    parked.closes_at = now + parked.connection->pending->receiver.time_left();
  }
  keep_until(parked, parked.closes_at);
  auto& entry = parked_[fd] = std::move(parked);
  if (entry.phase != Phase::kHead) return;
  // Bytes of a pipelined request may have been read together with the one before.
  if (entry.connection->has_buffered_bytes()) on_head_bytes(entry);
}

void ConnectionLoop::keep_until(Parked& parked, SteadyClock::time_point end) const {
  const bool waits_for_head = parked.phase == Phase::kHead || parked.phase == Phase::kHandshake;
  parked.closes_at = std::min(end, waits_for_head ? heads_until_ : all_close_at_);
}

void ConnectionLoop::on_event(int fd) {
  const auto found = parked_.find(fd);
  if (found == parked_.end()) return;  // dispatched or closed by an event before this one
  Parked& parked = found->second;
  switch (parked.phase) {
    case Phase::kHandshake:
      return on_handshake(parked);
    case Phase::kHead:
      return on_head(parked);
    case Phase::kBody:
      return on_body(parked);
    case Phase::kSending:
      return on_writable(parked);
    case Phase::kLingering:
      if (!parked.connection->discard_available()) unpark(fd);
      return;
  }
}

void ConnectionLoop::on_handshake(Parked& parked) {
  const int fd = parked.connection->fd();
  switch (parked.connection->shake_hands()) {
    case Connection::Handshake::kWantRead:
      return watch(fd, EPOLLIN | EPOLLRDHUP);
    case Connection::Handshake::kWantWrite:
      return watch(fd, EPOLLOUT);
    case Connection::Handshake::kFailed:
      return unpark(fd);
    case Connection::Handshake::kPlainText:
      parked.connection->read_some();
      return dispatch(fd);
    case Connection::Handshake::kDone:
      break;
  }
  watch(fd, EPOLLIN | EPOLLRDHUP);
  parked.phase = Phase::kHead;
  parked.since = SteadyClock::now();
  keep_until(parked, parked.since + limits_.idle_max);
  on_head(parked);
}

void ConnectionLoop::on_head(Parked& parked) {
  const bool open = parked.connection->read_available();
  // A client may send its request and close its side at once: then the head comes first.
  if (!open && parked.connection->head_state() != HeadState::kComplete) {
    unpark(parked.connection->fd());
    return;
  }
  on_head_bytes(parked);
}

void ConnectionLoop::on_head_bytes(Parked& parked) {
  const int fd = parked.connection->fd();
  if (parked.connection->head_state() != HeadState::kIncomplete) {
    dispatch(fd);
  } else if (parked.connection->has_buffered_bytes() && !parked.has_partial_head) {
    parked.has_partial_head = true;
    keep_until(parked, SteadyClock::now() + limits_.head_max);
  }
}

void ConnectionLoop::on_body(Parked& parked) {
  BodyReceiver& receiver = parked.connection->pending->receiver;
  if (receiver.receive(*parked.connection) != BodyState::kIncomplete) {
    dispatch(parked.connection->fd());
  } else {
    keep_until(parked, SteadyClock::now() + receiver.time_left());
  }
}

void ConnectionLoop::on_writable(Parked& parked) {
  const int fd = parked.connection->fd();
  const IoStatus status = parked.connection->send_unsent();
  if (status == IoStatus::kWantWrite) {
    keep_until(parked, SteadyClock::now() + parked.connection->send_time_left());
    return;
  }
  if (status != IoStatus::kOk || parked.connection->next == Connection::Next::kClose)
    return unpark(fd);
  if (parked.connection->next == Connection::Next::kLinger) parked.connection->begin_lingering();
  auto node = parked_.extract(fd);
  remove_from(epoll_, fd);
  park(std::move(node.mapped().connection));
}

void ConnectionLoop::watch(int fd, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void ConnectionLoop::dispatch(int fd) {
  auto node = parked_.extract(fd);
  remove_from(epoll_, fd);
  ++dispatched_;
  dispatch_(std::move(node.mapped().connection));
}

void ConnectionLoop::unpark(int fd) {
  // Out of the set before it is closed: a new connection may get its number at once.
  remove_from(epoll_, fd);
  parked_.erase(fd);
}

void ConnectionLoop::on_expired(int fd) {
  Parked& parked = parked_.at(fd);
  if (parked.phase != Phase::kBody) return unpark(fd);
  // Whose body does not come is told so.
  parked.connection->pending->receiver.time_out();
  dispatch(fd);
}

void ConnectionLoop::close_expired() {
  const auto now = SteadyClock::now();
  if (!accepting_ && now >= accepts_again_at_) pause_accepting(false);
  if (now < scans_at_) return;
  scans_at_ = now + (draining_ ? kDrainScan : kExpiryScan);
  std::vector<int> expired;
  for (const auto& [fd, parked] : parked_) {
    if (parked.closes_at > now) continue;
    // Its request may have come, and not been looked at yet; but blank lines are no request.
    const bool may_have_request = parked.phase == Phase::kHead && !parked.has_partial_head &&
                                  now < std::max(parked.closes_at, parked.since) + kDrainGrace &&
                                  parked.connection->has_unread_bytes();
    if (!may_have_request) expired.push_back(fd);
  }
  for (const int fd : expired) on_expired(fd);
}

void ConnectionLoop::begin_drain() {
  // Closing the listener resets connections that the kernel has completed: take those first, as if
  // they had come before.
  if (accepting_) accept_waiting();
  draining_ = true;
  pause_accepting(true);
  listener_.reset();
  heads_until_ = SteadyClock::now() + kDrainGrace;
  for (auto& [fd, parked] : parked_) keep_until(parked, parked.closes_at);
}

void ConnectionLoop::begin_abandoning() {
  all_close_at_ = SteadyClock::now() + kAbandonGrace;
  heads_until_ = std::min(heads_until_, all_close_at_);
  for (auto& [fd, parked] : parked_) keep_until(parked, parked.closes_at);
}

}  // namespace espalier::server
