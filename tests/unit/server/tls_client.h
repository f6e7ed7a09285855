// A client that speaks TLS on a blocking socket, and nothing of HTTP.
#pragma once

#include <openssl/ssl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "server/http/file_descriptor.h"

namespace espalier::server {

class TlsClient {
 public:
  /// Connects to 127.0.0.1 and shakes hands, with `version` at most (TLS1_3_VERSION …), which is
  /// not checked; see is_connected(). No read takes longer than 20 s.
  explicit TlsClient(uint16_t port, int version = TLS1_3_VERSION);

  bool is_connected() const { return connected_; }
  /// "TLSv1.3"
  std::string version() const { return SSL_get_version(ssl_.get()); }
  /// Of the server's certificate, in hexadecimal.
  std::string server_serial() const;

  bool send(std::string_view bytes);
  /// What comes next; empty at the end. `closed_cleanly` tells of the peer's farewell.
  std::string receive();
  bool closed_cleanly() const { return closed_cleanly_; }
  /// The status line and all that belongs to one answer with a Content-Length; empty if none comes.
  std::string receive_answer();
  int fd() const { return socket_.get(); }

  /// Records that change the key `count` times, to be sent with send_raw(). Nothing else can be
  /// sent afterwards.
  std::string key_updates(int count);
  /// Sends bytes as they are.
  void send_raw(std::string_view bytes);

 private:
  FileDescriptor socket_;
  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> settings_;
  std::unique_ptr<SSL, void (*)(SSL*)> ssl_;
  std::string received_;
  bool connected_ = false;
  bool closed_cleanly_ = false;
};

}  // namespace espalier::server
