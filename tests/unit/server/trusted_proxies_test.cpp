#include "server/http/trusted_proxies.h"

#include <gmock/gmock.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "server/access/identity.h"

namespace espalier::server {
namespace {

using testing::HasSubstr;

/// X-Forwarded-For, a field each.
HeaderFields forwarded(const std::vector<std::string>& values) {
  HeaderFields fields;
  fields.add("host", "t");
  for (const auto& value : values) fields.add("x-forwarded-for", value);
  fields.add("forwarded", "for=198.51.100.99");
  fields.add("x-real-ip", "198.51.100.98");
  return fields;
}

/// Of a request from 10.0.0.1, where 10.0.0.0/8 and fd00::/8 are proxies.
std::string client(const std::vector<std::string>& values, const std::string& peer = "10.0.0.1") {
  static const TrustedProxies proxies({"10.0.0.0/8", "fd00::/8"});
  return proxies.client_of(peer, forwarded(values));
}

std::string refusal(const std::string& network) {
  try {
    const TrustedProxies proxies({network});
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(TrustedProxies, NobodyIsTrustedUnlessNamed) {
  EXPECT_EQ(TrustedProxies().client_of("127.0.0.1", forwarded({"192.0.2.7"})), "127.0.0.1");
  EXPECT_EQ(client({"192.0.2.7"}, "11.0.0.1"), "11.0.0.1");
  EXPECT_EQ(client({"192.0.2.7"}, ""), "");
  EXPECT_EQ(client({"192.0.2.7"}, "::ffff:10.0.0.1"), "192.0.2.7");
}

TEST(TrustedProxies, TheRightmostAddressThatIsNoProxyIsTheClient) {
  EXPECT_EQ(client({}), "10.0.0.1");
  EXPECT_EQ(client({"192.0.2.7"}), "192.0.2.7");
  EXPECT_EQ(client({"192.0.2.7, 10.0.0.2"}), "192.0.2.7");
  EXPECT_EQ(client({"192.0.2.7, 10.0.0.2,fd00::2"}), "192.0.2.7");
  EXPECT_EQ(client({"192.0.2.7"}, "fd00::1"), "192.0.2.7");
  // Asked by one proxy for another.
  EXPECT_EQ(client({"10.0.0.3, 10.0.0.2"}), "10.0.0.3");
}

TEST(TrustedProxies, SeveralFieldsAreOneList) {
  EXPECT_EQ(client({"203.0.113.1", "192.0.2.7"}), "192.0.2.7");
  EXPECT_EQ(client({"203.0.113.1, 192.0.2.7", "10.0.0.2", "10.0.0.3, 10.0.0.4"}), "192.0.2.7");
}

TEST(TrustedProxies, WhatAClientSentItselfIsNotRead) {
  EXPECT_EQ(client({"203.0.113.1, 192.0.2.7"}), "192.0.2.7");
  EXPECT_EQ(client({"10.0.0.9, 192.0.2.7"}), "192.0.2.7");
  EXPECT_EQ(client({"203.0.113.1, 10.0.0.9, 192.0.2.7, 10.0.0.2"}), "192.0.2.7");
  EXPECT_EQ(client({"nonsense, \"[, 192.0.2.7"}), "192.0.2.7");
}

TEST(TrustedProxies, WhatIsMalformedEndsTheList) {
  EXPECT_EQ(client({"203.0.113.1, unknown"}), "10.0.0.1");
  EXPECT_EQ(client({"203.0.113.1, unknown, 10.0.0.2"}), "10.0.0.2");
  EXPECT_EQ(client({"203.0.113.1", "unknown", "10.0.0.2"}), "10.0.0.2");
  for (const char* entry : {"192.0.2.7 10.0.0.2",
                            "192.0.2.7:",
                            "192.0.2.7:http",
                            "192.0.2.7:123456",
                            "[2001:db8::1",
                            "[2001:db8::1]80",
                            "[2001:db8::1]:",
                            "2001:db8::1]",
                            "[]",
                            "[",
                            "]",
                            ":",
                            ":80",
                            "[]:80",
                            "[[::1]]",
                            "fe80::1%eth0",
                            "for=192.0.2.7",
                            "\"192.0.2.7\"",
                            "_hidden",
                            "-1.2.3.4",
                            "\xff\xfe",
                            "192.0.2.7;",
                            "192.0.2.7/32"}) {
    EXPECT_EQ(client({std::string("203.0.113.1, ") + entry}), "10.0.0.1") << entry;
  }
}

TEST(TrustedProxies, EmptyEntriesMeanNothing) {
  EXPECT_EQ(client({""}), "10.0.0.1");
  EXPECT_EQ(client({",,", " , \t,"}), "10.0.0.1");
  EXPECT_EQ(client({"203.0.113.1,, 192.0.2.7, , ", ""}), "192.0.2.7");
}

TEST(TrustedProxies, PortsAndBracketsAreDropped) {
  EXPECT_EQ(client({"192.0.2.7:61234"}), "192.0.2.7");
  EXPECT_EQ(client({"2001:db8::1"}), "2001:db8::1");
  EXPECT_EQ(client({"[2001:db8::1]"}), "2001:db8::1");
  EXPECT_EQ(client({"[2001:DB8::1]:61234"}), "2001:db8::1");
  EXPECT_EQ(client({"192.0.2.7, 10.0.0.2:80, [fd00::2]:80"}), "192.0.2.7");
}

TEST(TrustedProxies, IPv4CarriedByIPv6IsIPv4) {
  EXPECT_EQ(client({"::ffff:192.0.2.7"}), "192.0.2.7");
  EXPECT_EQ(client({"192.0.2.7, ::ffff:10.0.0.2"}), "192.0.2.7");
  EXPECT_EQ(client({"[::ffff:c000:207]:80"}), "192.0.2.7");
}

TEST(TrustedProxies, ANetworkOf64BitsStaysOneClient) {
  const auto identity = [](const char* value) {
    return identity_of_address(client({value})).client;
  };
  EXPECT_EQ(identity("2001:db8:1:2::1"), identity("[2001:db8:1:2:ffff::9]:80"));
  EXPECT_NE(identity("2001:db8:1:2::1"), identity("2001:db8:1:3::1"));
  EXPECT_NE(identity("192.0.2.7"), identity("192.0.2.8"));
  EXPECT_EQ(identity("192.0.2.7"), identity("::ffff:192.0.2.7"));
  EXPECT_EQ(identity("192.0.2.7"), identity_of_address("192.0.2.7").client);
}

TEST(TrustedProxies, LongListsAreReadOnce) {
  std::string list = "203.0.113.1, 192.0.2.7";
  for (int i = 0; i < 50000; ++i) list += ",10.0.0.2,,";
  EXPECT_EQ(client({list}), "192.0.2.7");
  EXPECT_EQ(client({std::string(1U << 20U, ',')}), "10.0.0.1");
  EXPECT_EQ(client({std::string(1U << 20U, '[')}), "10.0.0.1");
}

TEST(TrustedProxies, PrivateIsAllThatIsNotRouted) {
  const TrustedProxies proxies({"private", "192.0.2.1"});
  const auto fields = forwarded({"198.51.100.1"});
  for (const char* peer : {"10.1.2.3", "172.31.0.1", "192.168.1.1", "127.0.0.1", "127.8.8.8", "::1",
                           "169.254.1.1", "fe80::1", "fc00::1", "fd12:3456::1", "192.0.2.1"}) {
    EXPECT_EQ(proxies.client_of(peer, fields), "198.51.100.1") << peer;
  }
  for (const char* peer : {"11.0.0.1", "172.32.0.1", "192.169.0.1", "100.64.0.1", "192.0.2.2",
                           "2001:db8::1", "::2", "fec0::1", "::"}) {
    EXPECT_EQ(proxies.client_of(peer, fields), peer);
  }
}

TEST(TrustedProxies, WhatIsNoNetworkIsRefusedWithTheMend) {
  for (const char* text : {"", "proxy.example.com", "10.0.0", "10.0.0.1:80", "[::1]", "Private",
                           "/8", " 10.0.0.1", "fe80::1%eth0"}) {
    EXPECT_THAT(refusal(text), HasSubstr("--trusted-proxy: `" + std::string(text) + "`"));
    EXPECT_THAT(refusal(text), HasSubstr("10.0.0.0/8")) << text;
  }
  for (const char* text : {"10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/8/8", "10.0.0.0/a",
                           "10.0.0.0/ 8", "10.0.0.0/99999999999999999999"}) {
    EXPECT_THAT(refusal(text), HasSubstr("from 0 to 32")) << text;
  }
  EXPECT_THAT(refusal("fd00::/129"), HasSubstr("from 0 to 128"));
  EXPECT_THAT(refusal("10.0.0.1/8"), HasSubstr("write 10.0.0.0/8 for the network, or 10.0.0.1 "));
  EXPECT_THAT(refusal("fd00::1/8"), HasSubstr("write fd00::/8 for the network, or fd00::1 "));
  for (const char* text : {"10.0.0.1", "10.0.0.1/32", "0.0.0.0/0", "::1", "::/0", "fd00::/8"})
    EXPECT_EQ(refusal(text), "");
}

}  // namespace
}  // namespace espalier::server
