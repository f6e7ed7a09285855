// Who is at the other end of a connection.
//
// Thread contract: functions without state.
#pragma once

#include <sys/socket.h>

#include <string>

namespace espalier::server {

/// The IP address of the peer of socket `fd` as text ("192.0.2.7", "2001:db8::1"); an IPv4 address
/// that IPv6 carries (::ffff:192.0.2.7) as IPv4. Empty if there is none any more.
std::string peer_address(int fd);

/// The same of a socket address.
std::string address_text(const sockaddr_storage& address);

}  // namespace espalier::server
