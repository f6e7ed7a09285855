#include "raw_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace espalier::server {

RawClient::RawClient(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
    throw std::runtime_error(std::string("connect: ") + std::strerror(errno));
}

bool RawClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

void RawClient::half_close() { ::shutdown(socket_.get(), SHUT_WR); }

bool RawClient::receive_more(std::chrono::steady_clock::time_point until) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
  pollfd entry{socket_.get(), POLLIN, 0};
  if (left.count() <= 0 || ::poll(&entry, 1, static_cast<int>(left.count())) <= 0) return false;
  std::array<char, 65536> bytes;
  const ssize_t count = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
  ended_ = count <= 0;
  reset_ = count < 0;
  if (!ended_) received_.append(bytes.data(), static_cast<size_t>(count));
  return !ended_;
}

std::string RawClient::receive_once() {
  receive_more(std::chrono::steady_clock::now() + std::chrono::seconds(20));
  return std::exchange(received_, {});
}

std::optional<RawResponse> RawClient::receive(bool head_only, std::chrono::milliseconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  size_t head_end = std::string::npos;
  while ((head_end = received_.find("\r\n\r\n")) == std::string::npos)
    if (!receive_more(until)) return std::nullopt;
  RawResponse response;
  response.status = std::stoi(received_.substr(9, 3));
  size_t line = received_.find("\r\n") + 2;
  while (line < head_end) {
    const size_t end = received_.find("\r\n", line);
    const size_t colon = received_.find(": ", line);
    std::string name = received_.substr(line, colon - line);
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    response.headers[name] = received_.substr(colon + 2, end - colon - 2);
    line = end + 2;
  }
  received_.erase(0, head_end + 4);
  if (head_only || response.status == 100) return response;
  const size_t length = std::stoul(response.headers.at("content-length"));
  while (received_.size() < length)
    if (!receive_more(until)) return std::nullopt;
  response.body = received_.substr(0, length);
  received_.erase(0, length);
  return response;
}

bool RawClient::is_closed(std::chrono::milliseconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (receive_more(until)) received_.clear();
  return ended_;
}

std::string post(const std::string& path, const std::string& body, const std::string& fields) {
  return "POST " + path + " HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n" + fields +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::string get(const std::string& path) {
  return "GET " + path + " HTTP/1.1\r\nHost: test\r\n\r\n";
}

std::optional<RawResponse> exchange(uint16_t port, const std::string& request) {
  RawClient client(port);
  client.send(request);
  return client.receive();
}

}  // namespace espalier::server
