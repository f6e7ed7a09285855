// A client's connection: a non-blocking socket, and the bytes read from it that no request has
// used.
//
// Thread contract: one owner at a time; it moves between the connection loop and the request
// threads.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "server/http/file_descriptor.h"
#include "server/http/request_head.h"

namespace espalier::server {

using SteadyClock = std::chrono::steady_clock;

/// How long one transfer may take: it may neither stall nor crawl, for it holds a thread.
class TransferClock {
 public:
  explicit TransferClock(std::chrono::seconds stall_max)
      : stall_max_(stall_max), start_(SteadyClock::now()), last_moved_(start_) {}

  void moved(size_t bytes) {
    bytes_ += bytes;
    last_moved_ = SteadyClock::now();
  }
  /// Time left to wait for the next byte; zero when the transfer has failed.
  std::chrono::milliseconds time_left() const;

 private:
  std::chrono::seconds stall_max_;
  SteadyClock::time_point start_;
  SteadyClock::time_point last_moved_;
  size_t bytes_ = 0;
};

enum class TransferStatus { kOk, kClosed, kTimeout };

class Connection {
 public:
  explicit Connection(FileDescriptor socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }

  /// Reads what the socket holds without waiting, but no more than one head may have. False: the
  /// client has closed it, or it broke.
  bool read_available();
  /// Whether a whole request head has been read; see find_head().
  HeadState head_state();
  /// Takes the head out of the buffer: what is there, when it is broken.
  std::string take_head();
  bool has_buffered_bytes() const { return start_ < buffer_.size(); }
  bool next_bytes_are(std::string_view start) const { return buffered().starts_with(start); }

  /// Up to `size` bytes, at least one with kOk; waits within `clock`.
  struct ReadResult {
    TransferStatus status = TransferStatus::kOk;
    size_t bytes = 0;
  };
  ReadResult read(char* to, size_t size, TransferClock& clock);
  /// All of `bytes`, within `clock`.
  TransferStatus write(std::string_view bytes, TransferClock& clock);

  /// The client has closed its side. A client that only half-closes (`nc -N`) counts as gone, too:
  /// the two look the same, and in an overload most are clients that gave up.
  bool peer_gone() const;

  /// Closes the connection so that an answer that was written arrives: a socket closed with unread
  /// bytes resets the connection, and the client would lose what it has not read yet. Discards what
  /// still comes, for at most `patience`.
  void close_lingering(std::chrono::milliseconds patience);

  /// Requests answered on this connection.
  size_t answered = 0;

 private:
  std::string_view buffered() const { return std::string_view(buffer_).substr(start_); }
  void consume(size_t bytes);

  FileDescriptor socket_;
  std::string buffer_;
  size_t start_ = 0;         // bytes of buffer_ that are used up
  size_t head_scanned_ = 0;  // of buffered(), by find_head()
};

}  // namespace espalier::server
