// Pages of other origins: what they are told with and without --cors-origin.
#include <gmock/gmock.h>

#include <stdexcept>

#include "raw_client.h"
#include "running_server.h"

namespace espalier::server {
namespace {

using testing::HasSubstr;

constexpr char kPage[] = "https://app.example.com";

HttpServerOptions options_for(std::vector<std::string> origins) {
  auto options = test_options();
  options.cors = CorsPolicy(std::move(origins));
  return options;
}

/// Answers of 204 have no Content-Length: the head is all.
RawResponse ask(const RunningServer& running, const std::string& request, bool head_only = false) {
  RawClient client(running.port());
  client.send(request);
  const auto response = client.receive(head_only);
  EXPECT_TRUE(response);
  return response.value_or(RawResponse{});
}

std::string preflight(const std::string& origin) {
  return "OPTIONS /guarded HTTP/1.1\r\nHost: t\r\nOrigin: " + origin +
         "\r\nAccess-Control-Request-Method: POST\r\n\r\n";
}

size_t cors_fields(const RawResponse& response) {
  size_t count = response.headers.count("vary");
  for (const auto& [name, value] : response.headers)
    count += name.starts_with("access-control-") ? 1U : 0U;
  return count;
}

TEST(HttpCors, NothingOfItWithoutTheOption) {
  RunningServer running;
  const auto answer = ask(running, post("/echo", "x", "Origin: https://app.example.com\r\n"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(cors_fields(answer), 0U);
  const auto refused = ask(running, preflight(kPage));
  EXPECT_EQ(refused.status, 405);
  EXPECT_EQ(cors_fields(refused), 0U);
}

TEST(HttpCors, PreflightNeedsNoKey) {
  RunningServer running(options_for({"http://other:1", kPage}));
  RawClient client(running.port());
  client.send(preflight(kPage));
  const auto answer = client.receive(true);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 204);
  EXPECT_EQ(answer->headers.at("access-control-allow-origin"), kPage);
  EXPECT_THAT(answer->headers.at("access-control-allow-methods"), HasSubstr("POST"));
  EXPECT_THAT(answer->headers.at("access-control-allow-headers"), HasSubstr("Authorization"));
  EXPECT_THAT(answer->headers.at("access-control-allow-headers"), HasSubstr("X-Espalier-Affinity"));
  // OpenAI's SDK sends X-Stainless-Lang and more.
  EXPECT_THAT(answer->headers.at("access-control-allow-headers"), HasSubstr(", *"));
  EXPECT_EQ(answer->headers.at("vary"), "Origin");
  EXPECT_EQ(answer->headers.count("content-type"), 0U);
  EXPECT_EQ(answer->headers.count("content-length"), 0U);
  // The request itself comes on the same connection.
  client.send(post("/guarded", "x", "Origin: https://app.example.com\r\n"));
  EXPECT_EQ(client.receive()->status, 401);
}

TEST(HttpCors, AnswersAndErrorsCanBeReadByPagesOfTheOrigin) {
  RunningServer running(options_for({kPage}));
  const std::string field = "Origin: https://app.example.com\r\n";
  for (const auto& request : {post("/echo", "x", field), post("/nothing", "x", field)}) {
    const auto answer = ask(running, request);
    EXPECT_EQ(answer.headers.at("access-control-allow-origin"), kPage);
    EXPECT_EQ(answer.headers.at("vary"), "Origin");
    EXPECT_THAT(answer.headers.at("access-control-expose-headers"), HasSubstr("x-request-id"));
  }
}

TEST(HttpCors, OtherOriginsGetNoPermission) {
  RunningServer running(options_for({kPage}));
  for (const std::string origin : {"https://app.example.com.evil.net", "https://app.example.co",
                                   "http://app.example.com", "null", ""}) {
    EXPECT_EQ(ask(running, preflight(origin)).status, 405) << origin;
    const auto answer = ask(running, post("/echo", "x", "Origin: " + origin + "\r\n"));
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.headers.count("access-control-allow-origin"), 0U) << origin;
    EXPECT_EQ(answer.headers.at("vary"), "Origin");
  }
}

TEST(HttpCors, StarAllowsEveryPage) {
  RunningServer running(options_for({"*"}));
  EXPECT_EQ(ask(running, preflight("null"), true).headers.at("access-control-allow-origin"), "*");
  const auto answer = ask(running, post("/echo", "x", "Origin: http://x\r\n"));
  EXPECT_EQ(answer.headers.at("access-control-allow-origin"), "*");
  EXPECT_EQ(answer.headers.count("vary"), 0U);
  EXPECT_EQ(cors_fields(ask(running, post("/echo", "x"))), 0U);
}

TEST(HttpCors, OptionsWithoutAPageIsNoPreflight) {
  RunningServer running(options_for({"*"}));
  EXPECT_EQ(ask(running, "OPTIONS /echo HTTP/1.1\r\nHost: t\r\n\r\n").status, 405);
}

TEST(CorsPolicy, OnlyOriginsAreTaken) {
  for (const std::string text : {"app.example.com", "https://", "https://a/", "https://a/b",
                                 "https://A.example", "null", "", "https://a,b", "*.example.com"}) {
    EXPECT_THROW(CorsPolicy({text}), std::runtime_error) << text;
  }
  EXPECT_NO_THROW(CorsPolicy({"http://[::1]:3000", "https://a-b.example", "*"}));
}

}  // namespace
}  // namespace espalier::server
