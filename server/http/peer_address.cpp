#include "server/http/peer_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>
#include <cstring>

namespace espalier::server {
namespace {

std::string text_of(int family, const void* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const char* const written = ::inet_ntop(family, address, text.data(), text.size());
  return written != nullptr ? written : std::string();
}

}  // namespace

std::string peer_address(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  return address_text(address);
}

std::string address_text(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    sockaddr_in ipv4{};
    std::memcpy(&ipv4, &address, sizeof(ipv4));
    return text_of(AF_INET, &ipv4.sin_addr);
  }
  if (address.ss_family != AF_INET6) return {};
  sockaddr_in6 ipv6{};
  std::memcpy(&ipv6, &address, sizeof(ipv6));
  // A socket that listens on :: sees IPv4 clients like this.
  if (IN6_IS_ADDR_V4MAPPED(&ipv6.sin6_addr)) return text_of(AF_INET, &ipv6.sin6_addr.s6_addr[12]);
  return text_of(AF_INET6, &ipv6.sin6_addr);
}

}  // namespace espalier::server
