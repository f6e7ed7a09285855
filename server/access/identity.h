// On whose behalf a request runs, as the scheduler tells requests apart.
//
// Thread contract: functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace espalier::server {

struct Identity {
  uint64_t tenant = 0;  // Submission::tenant: who may share prefixes with whom
  uint64_t client = 0;  // Submission::client: who gets a fair share of the machine
  double weight = 1;    // Submission::weight: … of which size
  bool admin = false;   // may see what goes on, of all clients
  std::string name;     // of the API key, for logs and metrics; empty without keys
};

/// A client known by nothing but its IP address (as text; see http/peer_address.h). Those of one
/// IPv6 /64 are one client, for whoever has one address of it has them all. What is no address is
/// client 0.
Identity identity_of_address(std::string_view address);

}  // namespace espalier::server
