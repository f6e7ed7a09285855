// A client's connection: a non-blocking socket, encrypted or not, and the bytes read from it that
// no request has used.
//
// Thread contract: one owner at a time; it moves between the connection loop and the request
// threads.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/body_budget.h"
#include "server/http/file_descriptor.h"
#include "server/http/io_result.h"
#include "server/http/request_head.h"
#include "server/http/tls.h"
#include "server/http/transfer_clock.h"

namespace espalier::server {

struct PendingRequest;

enum class TransferStatus { kOk, kClosed, kTimeout };

class Connection {
 public:
  /// Heads have at most `head_bytes_max`; with `tls` a handshake comes before the first one.
  Connection(FileDescriptor socket, size_t head_bytes_max,
             std::unique_ptr<TlsSession> tls = nullptr);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int fd() const { return socket_.get(); }

  enum class Handshake : uint8_t { kDone, kWantRead, kWantWrite, kPlainText, kFailed };
  bool in_handshake() const { return in_handshake_; }
  /// Goes on with the handshake. kPlainText: the client speaks no TLS, and the connection no longer
  /// does either, so that it can be told so.
  Handshake shake_hands();
  /// shake_hands() has met plain text.
  bool is_refused_plain_text() const { return refused_plain_text_; }

  /// One read without waiting, to the buffered bytes. Never kWantWrite.
  IoResult read_some();
  /// Reads what the socket holds without waiting, but no more than one head may have. False: the
  /// client has closed it, or it broke.
  bool read_available();
  /// The socket holds bytes that have not been read.
  bool has_unread_bytes() const;
  /// Whether a whole request head has been read; see find_head().
  HeadState head_state();
  /// Takes the head out of the buffer: what is there, when it is broken.
  std::string take_head();
  bool has_buffered_bytes() const { return start_ < buffer_.size(); }
  /// Until the next call of anything else.
  std::string_view buffered_bytes() const { return std::string_view(buffer_).substr(start_); }
  /// Drops the first `bytes` of the buffered ones.
  void consume(size_t bytes);
  /// Gives back memory that nothing is in.
  void shrink();

  /// Sends what the socket takes of `bytes` and keeps the rest, which counts in `budget`, for
  /// send_unsent(), which has to move on within `stall_max`. Only if the budget has no room for it
  /// waits for the client or for room, a moment.
  TransferStatus write(std::string_view bytes, BodyBudget& budget, std::chrono::seconds stall_max);
  bool has_unsent() const { return sent_ < unsent_.size(); }
  /// Goes on without waiting. kOk: everything has been sent.
  IoStatus send_unsent();
  /// When the client must have read more; zero when it is too late.
  std::chrono::milliseconds send_time_left() const;

  /// The client has closed its side. A client that only half-closes (`nc -N`) counts as gone, too:
  /// the two look the same, and in an overload most are clients that gave up.
  bool peer_gone() const;

  /// Closes our side, so that an answer that was written arrives: a socket closed with unread bytes
  /// resets the connection, and the client would lose what it has not read yet. From now on
  /// discard_available() alone makes sense.
  void begin_lingering();
  bool is_lingering() const { return lingering_; }
  /// Drops what has come. False: the client has closed its side, too.
  bool discard_available();

  /// What comes when everything has been sent.
  enum class Next : uint8_t { kRequest, kLinger, kClose };
  Next next = Next::kRequest;
  /// The request whose body has not arrived whole; null between requests.
  std::unique_ptr<PendingRequest> pending;

 private:
  IoResult write_some(std::string_view bytes);
  IoStatus send_before_and(std::string_view& bytes);

  FileDescriptor socket_;
  std::unique_ptr<TlsSession> tls_;  // goes before the socket does
  const size_t head_bytes_max_;
  bool in_handshake_;
  bool handshake_begun_ = false;
  bool refused_plain_text_ = false;
  bool lingering_ = false;
  std::string buffer_;
  std::string unsent_;  // from sent_ on
  size_t sent_ = 0;
  std::optional<BodyBudget::Share> unsent_share_;
  std::optional<TransferClock> send_clock_;  // while there is something unsent
  size_t start_ = 0;                         // bytes of buffer_ that are used up
  size_t head_scanned_ = 0;                  // of buffered_bytes(), by find_head()
};

}  // namespace espalier::server
