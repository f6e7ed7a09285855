#include "hub/url.h"

#include <gtest/gtest.h>

#include "hub/hub_error.h"

namespace espalier::hub {
namespace {

TEST(Url, HasAnOriginAndATarget) {
  const Url url = parse_url("HTTPS://Hub.Example:8443/a/%2F?b=c%20d#e");
  EXPECT_TRUE(url.https);
  EXPECT_EQ(url.host, "hub.example");
  EXPECT_EQ(url.port, 8443);
  EXPECT_EQ(url.target, "/a/%2F?b=c%20d");
  EXPECT_EQ(url.text(), "https://hub.example:8443/a/%2F?b=c%20d");
  EXPECT_EQ(parse_url("http://a").port, 80);
  EXPECT_EQ(parse_url("https://a:443/x").origin(), "https://a");
  EXPECT_EQ(parse_url("http://[::1]:80/x").origin(), "http://[::1]");
  EXPECT_EQ(parse_url("http://a?b").target, "/?b");
}

TEST(Url, IsRefusedIfNoRequestCanBeMadeOfIt) {
  for (const char* text :
       {"", "a", "//a", "ftp://a", "http://", "http:///a", "http://a b", "http://a/\r\nX: y",
        "http://u@a", "http://u:p@a/", "http://a:", "http://a:0", "http://a:65536", "http://a:8x",
        "http://[::1", "http://[x]/", "http://[::1]8/", "http://a,b/", "javascript:x"}) {
    EXPECT_THROW(parse_url(text), HubError) << text;
  }
  EXPECT_THROW(parse_url("http://a/" + std::string(20000, 'x')), HubError);
}

TEST(Url, RefusalsKeepSignaturesToThemselves) {
  try {
    parse_url("http://a b/?signature");
    FAIL();
  } catch (const HubError& error) {
    EXPECT_EQ(std::string(error.what()).find("signature"), std::string::npos);
  }
}

TEST(Url, OnlyTheSameSchemeHostAndPortIsTheSameOrigin) {
  const Url hub = parse_url("https://hub.example/a");
  EXPECT_TRUE(hub.same_origin(parse_url("https://HUB.example:443/b")));
  for (const char* other :
       {"http://hub.example/", "https://hub.example:444/", "https://hub.example.evil/",
        "https://cdn.hub.example/", "https://hub.example./"})
    EXPECT_FALSE(hub.same_origin(parse_url(other))) << other;
}

TEST(Redirect, IsResolvedAsRfc3986Says) {
  const Url base = parse_url("http://a/b/c/d;p?q");
  // Section 5.4, but for what has another scheme or is for fragments.
  const std::pair<const char*, const char*> cases[] = {
      {"g", "http://a/b/c/g"},
      {"./g", "http://a/b/c/g"},
      {"g/", "http://a/b/c/g/"},
      {"/g", "http://a/g"},
      {"//g", "http://g/"},
      {"?y", "http://a/b/c/d;p?y"},
      {"g?y", "http://a/b/c/g?y"},
      {"", "http://a/b/c/d;p?q"},
      {".", "http://a/b/c/"},
      {"./", "http://a/b/c/"},
      {"..", "http://a/b/"},
      {"../", "http://a/b/"},
      {"../g", "http://a/b/g"},
      {"../..", "http://a/"},
      {"../../g", "http://a/g"},
      {"../../../g", "http://a/g"},
      {"g;x=1/../y", "http://a/b/c/y"},
      {"g?y/../x", "http://a/b/c/g?y/../x"},
      {"g#s/../x", "http://a/b/c/g"},
      {"/x?u=http://z/", "http://a/x?u=http://z/"},
      {"http://z", "http://z/"},
      {"HTTPS://Z:444/q?%7e", "https://z:444/q?%7e"}};
  for (const auto& [location, expected] : cases)
    EXPECT_EQ(resolve_redirect(base, location).text(), expected) << location;
}

TEST(Redirect, NeverLeavesTls) {
  const Url base = parse_url("https://a/b");
  EXPECT_THROW(resolve_redirect(base, "http://a/b"), HubError);
  EXPECT_TRUE(resolve_redirect(base, "//c/d").https);
  EXPECT_THROW(resolve_redirect(base, "ftp://a/b"), HubError);
  EXPECT_THROW(resolve_redirect(base, "/b c"), HubError);
  EXPECT_THROW(resolve_redirect(base, "/b\r\nX: y"), HubError);
}

TEST(PercentEncoding, KeepsOnlyWhatIsPlain) {
  EXPECT_EQ(percent_encoded("refs/pr/1", false), "refs%2Fpr%2F1");
  EXPECT_EQ(percent_encoded("a b/c+~\xc3\xa4%", true), "a%20b/c%2B~%C3%A4%25");
}

}  // namespace
}  // namespace espalier::hub
