#include "server/http/connection_loop.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

namespace espalier::server {
namespace {

/// After running out of descriptors or memory: an accept that fails at once would spin.
constexpr std::chrono::milliseconds kAcceptPause{100};
/// How long a connection that was made just before stop() may still send its first request.
constexpr std::chrono::milliseconds kDrainGrace{500};
constexpr std::chrono::milliseconds kExpiryScan{500};

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

}  // namespace

ConnectionLoop::ConnectionLoop(ConnectionLoopLimits limits, Dispatch dispatch)
    : limits_(limits),
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
        on_readable(fd);
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
    FileDescriptor socket(
        ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.is_open()) {
      const bool exhausted =
          errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      // Any other error is about the one connection that was to be accepted.
      if (exhausted) pause_accepting(true);
      if (exhausted || errno == EAGAIN || errno == EWOULDBLOCK) return;
      continue;
    }
    const int yes = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    park(std::make_unique<Connection>(std::move(socket)));
  }
}

void ConnectionLoop::park(std::unique_ptr<Connection> connection) {
  const int fd = connection->fd();
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.fd = fd;
  // The kernel has no room for one more: this connection is dropped, the others live on.
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return;
  auto& parked = parked_[fd];
  parked = {std::move(connection), SteadyClock::now() + limits_.idle_max};
  // Bytes of a pipelined request may have been read together with the one before.
  if (parked.connection->has_buffered_bytes()) on_bytes(parked);
  if (draining_ && parked_.contains(fd)) unpark(fd);
}

void ConnectionLoop::on_readable(int fd) {
  const auto found = parked_.find(fd);
  if (found == parked_.end()) return;  // dispatched or closed by an event before this one
  Parked& parked = found->second;
  const bool open = parked.connection->read_available();
  // A client may send its request and close its side at once: then the head comes first.
  if (!open && parked.connection->head_state() != HeadState::kComplete) {
    unpark(fd);
    return;
  }
  on_bytes(parked);
}

void ConnectionLoop::on_bytes(Parked& parked) {
  const int fd = parked.connection->fd();
  if (parked.connection->head_state() != HeadState::kIncomplete) {
    dispatch(fd);
  } else if (parked.connection->has_buffered_bytes() && !parked.has_partial_head) {
    parked.has_partial_head = true;
    parked.closes_at = SteadyClock::now() + limits_.head_max;
  }
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

void ConnectionLoop::close_expired() {
  const auto now = SteadyClock::now();
  if (!accepting_ && now >= accepts_again_at_) pause_accepting(false);
  for (auto entry = parked_.begin(); entry != parked_.end();) {
    const auto& [fd, parked] = *entry;
    if (parked.closes_at > now) {
      ++entry;
      continue;
    }
    remove_from(epoll_, fd);
    entry = parked_.erase(entry);
  }
}

void ConnectionLoop::begin_drain() {
  draining_ = true;
  // Closing the listener resets connections that the kernel has completed: take those first.
  if (accepting_) accept_waiting();
  pause_accepting(true);
  listener_.reset();
  std::vector<int> fds;
  for (const auto& [fd, parked] : parked_) fds.push_back(fd);
  const auto grace_end = SteadyClock::now() + kDrainGrace;
  for (const int fd : fds) {
    on_readable(fd);  // a request that has arrived already is accepted
    const auto found = parked_.find(fd);
    if (found == parked_.end()) continue;
    const bool idle = !found->second.has_partial_head && found->second.connection->answered > 0;
    if (idle) {
      unpark(fd);
    } else {
      found->second.closes_at = std::min(found->second.closes_at, grace_end);
    }
  }
}

}  // namespace espalier::server
