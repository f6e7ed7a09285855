// A client that sends the bytes it is told to, right or wrong.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/file_descriptor.h"

namespace espalier::server {

struct RawResponse {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

class RawClient {
 public:
  /// Connects to 127.0.0.1; throws std::runtime_error.
  explicit RawClient(uint16_t port);

  /// False when the server has closed the connection before it took everything.
  bool send(std::string_view bytes);
  /// Closes our sending side.
  void half_close();
  /// The next answer, or nothing if the connection ends or `patience` is up first.
  std::optional<RawResponse> receive(bool head_only = false,
                                     std::chrono::milliseconds patience = std::chrono::seconds(20));
  /// What one read of the socket gives, empty after the end or 20 s.
  std::string receive_once();
  /// Whether the server closes within `patience`; bytes before that are dropped.
  bool is_closed(std::chrono::milliseconds patience = std::chrono::seconds(20));
  /// Whether the connection ended by a reset, which may cost a client what it has not read.
  bool was_reset() const { return reset_; }
  /// Bytes that were received and belong to no answer yet.
  const std::string& pending() const { return received_; }

 private:
  /// Appends what comes; false at the end or when the time is up.
  bool receive_more(std::chrono::steady_clock::time_point until);

  FileDescriptor socket_;
  std::string received_;
  bool ended_ = false;
  bool reset_ = false;
};

/// "POST path" with Host, Content-Type, Content-Length and `body`; `fields` are whole lines.
std::string post(const std::string& path, const std::string& body, const std::string& fields = "");
std::string get(const std::string& path);

/// Sends `request` on a connection of its own.
std::optional<RawResponse> exchange(uint16_t port, const std::string& request);

}  // namespace espalier::server
