#include "server/access/identity.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <string>

namespace espalier::server {
namespace {

/// Of IPv4 clients, above their address: ::/64 … of IPv6 with these bits is not routed.
constexpr uint64_t kIpv4Clients = uint64_t{0xffff} << 32U;

/// The first `count` bytes as a number.
uint64_t leading_bytes(const unsigned char* bytes, size_t count) {
  uint64_t number = 0;
  for (size_t i = 0; i < count; ++i) number = number << 8U | bytes[i];
  return number;
}

}  // namespace

Identity identity_of_address(std::string_view address) {
  const std::string text(address);
  Identity identity;
  in_addr ipv4{};
  in6_addr ipv6{};
  if (::inet_pton(AF_INET, text.c_str(), &ipv4) == 1) {
    identity.client = kIpv4Clients | leading_bytes(reinterpret_cast<unsigned char*>(&ipv4), 4);
  } else if (::inet_pton(AF_INET6, text.c_str(), &ipv6) == 1) {
    identity.client = leading_bytes(ipv6.s6_addr, 8);
  }
  return identity;
}

}  // namespace espalier::server
