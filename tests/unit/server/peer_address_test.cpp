#include "server/http/peer_address.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstring>

namespace espalier::server {
namespace {

sockaddr_storage ipv6(const char* text) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  EXPECT_EQ(::inet_pton(AF_INET6, text, &address.sin6_addr), 1) << text;
  sockaddr_storage storage{};
  std::memcpy(&storage, &address, sizeof(address));
  return storage;
}

TEST(PeerAddress, IPv4CarriedByIPv6IsIPv4) {
  EXPECT_EQ(address_text(ipv6("::ffff:192.0.2.7")), "192.0.2.7");
  EXPECT_EQ(address_text(ipv6("2001:db8:0::1")), "2001:db8::1");
}

TEST(PeerAddress, WhatIsNoInternetSocketHasNone) {
  EXPECT_EQ(address_text(sockaddr_storage{}), "");
  EXPECT_EQ(peer_address(-1), "");
}

}  // namespace
}  // namespace espalier::server
