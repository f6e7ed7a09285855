// Accepts connections and keeps all those on which no request is being handled, in one epoll set
// and one thread: a thousand idle ones cost memory and nothing else. A connection leaves when the
// head of a request has arrived whole, and again when its body has; it comes back when there is
// more to wait for. TLS handshakes and the last moments of a connection are waited for here, too.
//
// Thread contract: run() by one thread; everything else from any thread. stop() may be called
// before, during and after run(), and more than once.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "server/http/connection.h"
#include "server/http/file_descriptor.h"
#include "server/http/tls.h"

namespace espalier::server {

struct ConnectionLoopLimits {
  std::chrono::seconds idle_max{60};  // between requests
  std::chrono::seconds head_max{30};  // from a head's first byte to its last; a handshake, too
  size_t head_bytes_max = kHeadBytesMax;
  /// Connections that are open at once. Those that would be more take the places of idle ones, else
  /// of those that are slowest with a head or a handshake, else wait to be accepted.
  size_t connections_max = SIZE_MAX;
};

class ConnectionLoop {
 public:
  /// Takes a connection whose next head is whole or hopeless, or whose pending body is. Must not
  /// block or throw; whoever ends up with it calls give_back() or closed().
  using Dispatch = std::function<void(std::unique_ptr<Connection>)>;

  /// Connections are encrypted if there is a `tls`.
  ConnectionLoop(ConnectionLoopLimits limits, std::shared_ptr<const TlsContext> tls,
                 Dispatch dispatch);

  /// Serves `listener` until stop(), then until every dispatched connection is back or closed.
  void run(FileDescriptor listener);
  /// No connection is accepted any more; idle ones are closed in a moment, unless a request comes
  /// before. Safe in a signal handler.
  void stop();
  bool stopping() const { return stopping_.load(); }
  /// After stop(): whoever sends or reads slowly gets a moment to finish, then is closed, or
  /// dispatched if a body is all that is missing.
  void abandon();
  bool abandoning() const { return abandoning_.load(); }

  /// A dispatched connection that waits for its next request, for the rest of its pending one, for
  /// its client to read what is unsent, or, lingering, for it to go.
  void give_back(std::unique_ptr<Connection> connection);
  /// A dispatched connection has been closed.
  void closed();

 private:
  enum class Phase : uint8_t {
    kHandshake,
    kHead,
    kBody,
    kSending,
    kLingering,
  };
  struct Parked {
    std::unique_ptr<Connection> connection;
    Phase phase = Phase::kHead;
    SteadyClock::time_point since;
    SteadyClock::time_point closes_at;
    bool has_partial_head = false;
  };

  void wake();
  void collect_returned();
  void accept_waiting();
  void take_in(FileDescriptor socket);
  void pause_accepting(bool pause);
  size_t open_connections() const { return parked_.size() + dispatched_; }
  bool make_room();
  void park(std::unique_ptr<Connection> connection);
  void keep_until(Parked& parked, SteadyClock::time_point end) const;
  void on_event(int fd);
  void on_handshake(Parked& parked);
  void on_head_bytes(Parked& parked);
  void on_head(Parked& parked);
  void on_body(Parked& parked);
  void on_writable(Parked& parked);
  void watch(int fd, uint32_t events);
  void dispatch(int fd);
  void unpark(int fd);
  void on_expired(int fd);
  void close_expired();
  void begin_drain();
  void begin_abandoning();
  int timeout_ms() const;

  ConnectionLoopLimits limits_;
  std::shared_ptr<const TlsContext> tls_;
  Dispatch dispatch_;
  FileDescriptor epoll_;
  FileDescriptor wake_event_;
  FileDescriptor listener_;
  std::unordered_map<int, Parked> parked_;
  SteadyClock::time_point accepts_again_at_{};
  SteadyClock::time_point warns_again_at_{};
  SteadyClock::time_point scans_at_{};
  bool accepting_ = false;
  bool draining_ = false;
  SteadyClock::time_point heads_until_ = SteadyClock::time_point::max();  // no longer waited for
  SteadyClock::time_point all_close_at_ = SteadyClock::time_point::max();
  size_t dispatched_ = 0;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> abandoning_ = false;

  std::mutex mutex_;
  std::vector<std::unique_ptr<Connection>> returned_;  // guarded by mutex_
  size_t closed_ = 0;                                  // guarded by mutex_
};

}  // namespace espalier::server
