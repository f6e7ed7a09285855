// Whose word for a client's address is taken: proxies that name the client in X-Forwarded-For.
//
// Each proxy on the way appends the address that it was asked from. So the list is read from its
// right end, and no further than the first address that is no trusted proxy: whatever stands left
// of that, a client may have made up.
//
// Thread contract: immutable, any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/http/header_fields.h"
#include "server/http/ip_address.h"

namespace espalier::server {

class TrustedProxies {
 public:
  /// None: every peer is the client.
  TrustedProxies() = default;
  /// Each an address ("192.0.2.7"), a network ("10.0.0.0/8", "fd00::/8") or "private", which stands
  /// for loopback, link-local and private networks (RFC 1918, and fc00::/7). Throws
  /// std::runtime_error for all else, and says what to write.
  explicit TrustedProxies(const std::vector<std::string>& networks);

  /// The address of the client of a request with `fields` from the connection's peer `peer`, as
  /// text: the rightmost one of the X-Forwarded-For fields that is no trusted proxy, or, if a
  /// malformed one comes before that or all are trusted, the last one that was read. `peer` itself
  /// if that is not trusted.
  std::string client_of(std::string_view peer, const HeaderFields& fields) const;

 private:
  bool contains(const IpAddress& address) const;

  std::vector<IpNetwork> networks_;
};

}  // namespace espalier::server
