#include "server/commands/health_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace espalier::commands {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string url_of(const Options& options) { return health_url(options).text(); }

TEST(HealthUrlTest, TheServersOwnPort) {
  Options options;
  EXPECT_EQ(url_of(options), "http://127.0.0.1:8080/readyz");
  options.port = 81;
  options.host = "10.1.2.3";
  options.health_live = true;
  EXPECT_EQ(url_of(options), "http://10.1.2.3:81/livez");
  options.tls_cert = "cert.pem";
  EXPECT_EQ(url_of(options), "https://10.1.2.3:81/livez");
}

TEST(HealthUrlTest, AllAddressesAreAskedOnLoopback) {
  Options options;
  for (const char* host : {"", "0.0.0.0"}) {
    options.host = host;
    EXPECT_EQ(url_of(options), "http://127.0.0.1:8080/readyz") << host;
  }
  for (const char* host : {"::", "0::0", "0:0:0:0:0:0:0:0"}) {
    options.host = host;
    EXPECT_EQ(url_of(options), "http://[::1]:8080/readyz") << host;
  }
}

TEST(HealthUrlTest, TheAdminPortIsPlainAndHasItsOwnHost) {
  Options options;
  options.host = "10.1.2.3";
  options.tls_cert = "cert.pem";
  options.admin_port = 9090;
  EXPECT_EQ(url_of(options), "http://10.1.2.3:9090/readyz");
  options.admin_host = "::";
  EXPECT_EQ(url_of(options), "http://[::1]:9090/readyz");
}

TEST(HealthUrlTest, AGivenUrlMayNameTheProbe) {
  Options options;
  options.port = 0;
  options.health_url = "https://example.com";
  EXPECT_EQ(url_of(options), "https://example.com/readyz");
  options.health_url = "http://example.com:81/";
  EXPECT_EQ(url_of(options), "http://example.com:81/readyz");
  options.health_url = "http://example.com:81/behind/readyz?a=b";
  EXPECT_EQ(url_of(options), options.health_url);
}

TEST(HealthUrlTest, WhatGivesNoAddressIsRefusedByName) {
  Options options;
  options.port = 0;
  EXPECT_THAT([&] { health_url(options); }, ThrowsMessage<std::runtime_error>(HasSubstr("--url")));
  options.health_url = "example.com";
  EXPECT_THAT([&] { health_url(options); },
              ThrowsMessage<std::runtime_error>(HasSubstr("--url: 'example.com'")));
}

}  // namespace
}  // namespace espalier::commands
