#include "server/http/ip_address.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace espalier::server {
namespace {

std::string canonical(std::string_view text) {
  const auto address = IpAddress::parse(text);
  return address ? address->text() : "none";
}

bool holds(std::string_view first, size_t bits, std::string_view address) {
  return IpNetwork(IpAddress::parse(first).value(), bits)
      .contains(IpAddress::parse(address).value());
}

TEST(IpAddress, IsWrittenInOneWay) {
  EXPECT_EQ(canonical("192.0.2.7"), "192.0.2.7");
  EXPECT_EQ(canonical("::ffff:192.0.2.7"), "192.0.2.7");
  EXPECT_EQ(canonical("::FFFF:c000:0207"), "192.0.2.7");
  EXPECT_EQ(canonical("2001:DB8:0:0::0:1"), "2001:db8::1");
  EXPECT_EQ(canonical("::"), "::");
  EXPECT_EQ(canonical("::1"), "::1");
}

TEST(IpAddress, IsNothingElse) {
  using namespace std::string_view_literals;
  for (const auto text :
       {""sv, " "sv, "192.0.2"sv, "192.0.2.256"sv, "192.0.2.7 "sv, "192.0.2.7:80"sv, "[::1]"sv,
        "fe80::1%eth0"sv, "192.0.2.7\0"sv, "192.0.2.7\0junk"sv, "1.2.3.4.5"sv, "0x7f.1"sv,
        "example.com"sv, ":::"sv, "1:2:3:4:5:6:7:8:9"sv}) {
    EXPECT_EQ(canonical(text), "none") << text;
  }
  EXPECT_EQ(canonical(std::string(100000, '1')), "none");
}

TEST(IpNetwork, HoldsWhatStartsAlike) {
  EXPECT_TRUE(holds("10.0.0.0", 8, "10.255.255.255"));
  EXPECT_FALSE(holds("10.0.0.0", 8, "11.0.0.0"));
  EXPECT_TRUE(holds("172.16.0.0", 12, "172.31.0.1"));
  EXPECT_FALSE(holds("172.16.0.0", 12, "172.32.0.1"));
  EXPECT_TRUE(holds("192.0.2.7", 32, "192.0.2.7"));
  EXPECT_FALSE(holds("192.0.2.7", 32, "192.0.2.6"));
  EXPECT_TRUE(holds("2001:db8::", 33, "2001:db8:7fff::1"));
  EXPECT_FALSE(holds("2001:db8::", 33, "2001:db8:8000::1"));
  EXPECT_TRUE(holds("::1", 128, "::1"));
  EXPECT_FALSE(holds("::1", 128, "::2"));
}

TEST(IpNetwork, HoldsAddressesOfItsFamilyAlone) {
  EXPECT_TRUE(holds("0.0.0.0", 0, "203.0.113.1"));
  EXPECT_FALSE(holds("0.0.0.0", 0, "::1"));
  EXPECT_TRUE(holds("::", 0, "2001:db8::1"));
  EXPECT_FALSE(holds("::", 0, "203.0.113.1"));
  EXPECT_TRUE(holds("10.0.0.0", 8, "::ffff:10.1.2.3"));
}

}  // namespace
}  // namespace espalier::server
