#include "server/access/identity.h"

#include <gtest/gtest.h>

#include <set>

namespace espalier::server {
namespace {

uint64_t client_of(const char* address) { return identity_of_address(address).client; }

TEST(Identity, EveryIPv4AddressIsAClient) {
  const std::set<uint64_t> clients = {client_of("192.0.2.1"), client_of("192.0.2.2"),
                                      client_of("1.2.0.192"), client_of("127.0.0.1")};
  EXPECT_EQ(clients.size(), 4U);
  EXPECT_EQ(client_of("192.0.2.1"), client_of("192.0.2.1"));
}

TEST(Identity, EveryIPv6NetworkOf64BitsIsAClient) {
  EXPECT_EQ(client_of("2001:db8:1:2::1"), client_of("2001:db8:1:2:ffff:1:2:3"));
  EXPECT_NE(client_of("2001:db8:1:2::1"), client_of("2001:db8:1:3::1"));
  EXPECT_NE(client_of("::1"), client_of("127.0.0.1"));
}

TEST(Identity, ThoseWithoutKeysShareAndWeighTheSame) {
  const Identity identity = identity_of_address("192.0.2.1");
  EXPECT_EQ(identity.tenant, 0U);
  EXPECT_EQ(identity.weight, 1);
  EXPECT_EQ(client_of(""), 0U);
  EXPECT_EQ(client_of("nowhere"), 0U);
}

}  // namespace
}  // namespace espalier::server
