// TLS 1.2 and 1.3 for connections that are not waited for. One of two files that include OpenSSL.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "server/http/io_result.h"

// OpenSSL's SSL and SSL_CTX.
struct ssl_st;
struct ssl_ctx_st;

namespace espalier::server {

/// One connection's encryption, on a non-blocking socket that it does not own.
///
/// Thread contract: one thread at a time.
class TlsSession {
 public:
  /// Takes over `ssl`.
  explicit TlsSession(ssl_st* ssl) : ssl_(ssl) {}
  /// Tells the client that nothing more comes; destroy it before the socket is closed.
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  /// Goes on with the handshake; kOk: it is done.
  IoStatus handshake();
  IoResult read(char* to, size_t size);
  IoResult write(std::string_view bytes);
  /// Bytes that are decrypted and not read: no event of the socket tells of them.
  bool has_pending() const;
  void send_close();

 private:
  IoStatus status_of(int result);

  ssl_st* ssl_;
  bool established_ = false;
  bool failed_ = false;
  bool close_sent_ = false;
};

/// The server's certificate and key.
///
/// Thread contract: any thread.
class TlsContext {
 public:
  /// Reads PEM files: a chain of certificates, the server's own first, and its key. Throws
  /// std::runtime_error, which names the file and the mend; one that has expired is only logged.
  /// From then on this process ignores SIGPIPE.
  TlsContext(std::string certificate_file, std::string key_file);

  /// Reads both files again, for connections to come; throws like the constructor, and then
  /// nothing changes.
  void reload();
  /// Throws std::bad_alloc.
  std::unique_ptr<TlsSession> session(int socket) const;

 private:
  using Settings = std::shared_ptr<ssl_ctx_st>;
  Settings load() const;

  const std::string certificate_file_;
  const std::string key_file_;
  mutable std::mutex mutex_;
  Settings settings_;  // guarded by mutex_
};

}  // namespace espalier::server
