#include "server/access/identity.h"

#include <cstddef>

#include "server/http/ip_address.h"

namespace espalier::server {
namespace {

/// Of IPv4 clients, above their address: ::/64 … of IPv6 with these bits is not routed.
constexpr uint64_t kIpv4Clients = uint64_t{0xffff} << 32U;

/// `count` bytes of an address, from `begin` on, as a number.
uint64_t number_of(const IpAddress& address, size_t begin, size_t count) {
  uint64_t number = 0;
  for (size_t i = begin; i < begin + count; ++i) number = number << 8U | address.bytes().at(i);
  return number;
}

}  // namespace

Identity identity_of_address(std::string_view address) {
  Identity identity;
  const auto ip = IpAddress::parse(address);
  if (!ip) return identity;
  identity.client = ip->is_ipv4() ? kIpv4Clients | number_of(*ip, 12, 4) : number_of(*ip, 0, 8);
  return identity;
}

}  // namespace espalier::server
