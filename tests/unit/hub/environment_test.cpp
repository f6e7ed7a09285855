#include "hub/environment.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "hub/hub_error.h"

namespace espalier::hub {
namespace {

using Variables = std::map<std::string, std::string>;

Lookup lookup_in(Variables variables) {
  return [variables = std::move(variables)](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

Environment read(Variables variables) {
  variables.emplace("HOME", "/home/x");
  return read_environment(lookup_in(std::move(variables)));
}

TEST(Environment, HasDefaults) {
  const Environment environment = read({});
  EXPECT_EQ(environment.endpoint.text(), "https://huggingface.co");
  EXPECT_EQ(environment.cache, "/home/x/.cache/huggingface/hub");
  EXPECT_EQ(environment.token, "");
  EXPECT_FALSE(environment.offline);
}

TEST(Environment, FindsTheCache) {
  EXPECT_EQ(read({{"HF_HUB_CACHE", "/a"}, {"HF_HOME", "/b"}}).cache, "/a");
  EXPECT_EQ(read({{"HUGGINGFACE_HUB_CACHE", "/a"}, {"HF_HOME", "/b"}}).cache, "/a");
  EXPECT_EQ(read({{"HF_HOME", "~/b"}, {"XDG_CACHE_HOME", "/c"}}).cache, "/home/x/b/hub");
  EXPECT_EQ(read({{"XDG_CACHE_HOME", "/c"}}).cache, "/c/huggingface/hub");
  EXPECT_EQ(read({{"HF_HUB_CACHE", ""}, {"HF_HOME", ""}}).cache, "/home/x/.cache/huggingface/hub");
  EXPECT_THROW(read_environment(lookup_in({})), HubError);
  EXPECT_EQ(read_environment(lookup_in({{"HF_HUB_CACHE", "/a"}})).cache, "/a");
}

TEST(Environment, FindsTheToken) {
  const std::string folder = ::testing::TempDir() + "espalier_hub_token";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/token") << "  from_file\n";
  EXPECT_EQ(read({{"HF_HOME", folder}}).token, "from_file");
  EXPECT_EQ(read({{"HF_HOME", folder}, {"HF_TOKEN", " mine\n"}}).token, "mine");
  EXPECT_EQ(read({{"HF_HOME", folder}, {"HF_TOKEN_PATH", "/nowhere"}}).token, "");
  EXPECT_EQ(read({{"HF_TOKEN_PATH", folder + "/token"}}).token, "from_file");
  EXPECT_THROW(read({{"HF_TOKEN", "a\r\nX: y"}}), HubError);
  EXPECT_THROW(read({{"HF_TOKEN", "\xc3\xa4"}}), HubError);
}

TEST(Environment, OfflineIsTrueInSeveralWays) {
  for (const char* yes : {"1", "on", "ON", "Yes", "true"})
    EXPECT_TRUE(read({{"HF_HUB_OFFLINE", yes}}).offline) << yes;
  for (const char* no : {"", "0", "off", "no", "2"})
    EXPECT_FALSE(read({{"HF_HUB_OFFLINE", no}}).offline) << no;
}

TEST(Environment, TheEndpointIsAUrl) {
  EXPECT_EQ(read({{"HF_ENDPOINT", "http://mirror:81/hf//"}}).endpoint.text(),
            "http://mirror:81/hf");
  for (const char* none : {"mirror", "ftp://mirror", "https://a?b", "https://u@a"})
    EXPECT_THROW(read({{"HF_ENDPOINT", none}}), HubError) << none;
}

TEST(Proxy, IsThatOfTheScheme) {
  const Variables both = {{"HTTPS_PROXY", "http://ann:p:w@tls.proxy:3128"},
                          {"http_proxy", "plain.proxy"}};
  const auto tls = proxy_for(parse_url("https://hub/"), lookup_in(both));
  ASSERT_TRUE(tls);
  EXPECT_EQ(tls->host, "tls.proxy");
  EXPECT_EQ(tls->port, 3128);
  EXPECT_EQ(tls->user, "ann");
  EXPECT_EQ(tls->password, "p:w");
  const auto plain = proxy_for(parse_url("http://hub/"), lookup_in(both));
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->host, "plain.proxy");
  EXPECT_EQ(plain->port, 80);
  EXPECT_TRUE(proxy_for(parse_url("http://hub/"), lookup_in({{"ALL_PROXY", "http://all"}})));
  EXPECT_FALSE(proxy_for(parse_url("http://hub/"), lookup_in({})));
  EXPECT_THROW(proxy_for(parse_url("http://hub/"), lookup_in({{"ALL_PROXY", "socks5://a"}})),
               HubError);
}

TEST(Proxy, NoProxyNamesHostsThatNeedNone) {
  const auto goes_through = [](const char* no_proxy, const char* url) {
    return proxy_for(parse_url(url), lookup_in({{"ALL_PROXY", "http://p"}, {"NO_PROXY", no_proxy}}))
        .has_value();
  };
  for (const char* entry : {"hub.example", "example", ".example", "*.example", "*",
                            "x, hub.example ,y", "HUB.EXAMPLE", "hub.example:443"})
    EXPECT_FALSE(goes_through(entry, "https://hub.example/")) << entry;
  for (const char* entry : {"", ",", "other", "ub.example", "hub.example:80", "hub"})
    EXPECT_TRUE(goes_through(entry, "https://hub.example/")) << entry;
}

}  // namespace
}  // namespace espalier::hub
