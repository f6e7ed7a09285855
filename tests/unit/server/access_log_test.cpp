#include "server/observe/access_log.h"

#include <gmock/gmock.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "exchange.h"

namespace espalier::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr char kTraceparent[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

std::string text_line(const TestExchange& exchange) {
  std::string line;
  append_access_line(exchange.get(), LogFormat::kText, line);
  return line;
}

json json_line(const TestExchange& exchange) {
  std::string members;
  append_access_line(exchange.get(), LogFormat::kJson, members);
  return json::parse("{" + members + "}");
}

TestExchange an_embedding() {
  TestExchange exchange("/v1/embeddings", 200);
  exchange.seconds = 0.0123456;
  exchange.request_bytes = 100;
  exchange.response_bytes = 2000;
  exchange.request.body = "a secret text";
  exchange.request.fields.add("traceparent", kTraceparent);
  exchange.request.fields.add("authorization", "Bearer a-secret-key");
  exchange.request.fields.add("x-espalier-affinity", "a-secret-query");
  exchange.request.fields.add("x-forwarded-for", "a-secret-client, 192.0.2.7");
  exchange.log = {{"key", std::string("shop")}, {"inputs", uint64_t{2}}, {"tokenize_ms", 0.25}};
  return exchange;
}

TEST(AccessLine, SaysWhatARequestWasAndTook) {
  EXPECT_EQ(text_line(an_embedding()),
            "request request_id=id-1 method=POST route=/v1/embeddings status=200 "
            "duration_ms=12.346 client=192.0.2.7 request_bytes=100 response_bytes=2000 key=shop "
            "inputs=2 tokenize_ms=0.250 trace_id=0af7651916cd43dd8448eb211c80319c "
            "span_id=b7ad6b7169203331");
  const json entry = json_line(an_embedding());
  EXPECT_EQ(entry, json::parse(R"({"message": "request", "request_id": "id-1", "method": "POST",
      "route": "/v1/embeddings", "status": 200, "duration_ms": 12.346, "client": "192.0.2.7",
      "request_bytes": 100, "response_bytes": 2000, "key": "shop", "inputs": 2,
      "tokenize_ms": 0.25, "trace_id": "0af7651916cd43dd8448eb211c80319c",
      "span_id": "b7ad6b7169203331"})"));
}

TEST(AccessLine, NamesTheProxyIfThereIsOne) {
  auto exchange = an_embedding();
  exchange.request.peer_address = exchange.request.client_address;
  EXPECT_FALSE(json_line(exchange).contains("peer"));
  exchange.request.peer_address = "10.0.0.1";
  EXPECT_EQ(json_line(exchange)["client"], "192.0.2.7");
  EXPECT_EQ(json_line(exchange)["peer"], "10.0.0.1");
}

TEST(AccessLine, NeverHoldsTextsNorKeys) {
  for (const auto& line : {text_line(an_embedding()), json_line(an_embedding()).dump()})
    EXPECT_THAT(line, Not(HasSubstr("secret")));
}

TEST(AccessLine, PathsAreShownOnlyBelowARoute) {
  auto exchange = an_embedding();
  EXPECT_FALSE(json_line(exchange).contains("path"));
  exchange.route = "/v1/models/*";
  exchange.request.path = "/v1/models/espalier-mini";
  EXPECT_EQ(json_line(exchange)["path"], "/v1/models/espalier-mini");
  exchange.request.path = "/v1/models/" + std::string(100000, 'x');
  EXPECT_EQ(json_line(exchange)["path"].get<std::string>().size(), 256U);
  exchange.route = kOtherRoute;
  exchange.request.path = "/my/secret/path";
  EXPECT_FALSE(json_line(exchange).contains("path"));
}

TEST(AccessLine, HostileValuesStayInTheirField) {
  const std::string hostile = "x\" status=500\n{\"forged\":1}\r\x1b[2J\\\xff\x80 =";
  auto exchange = an_embedding();
  exchange.route = "/v1/models/*";
  exchange.request.path = "/v1/models/" + hostile;
  exchange.request.method = hostile;
  exchange.request.client_address = hostile;
  exchange.log = {{"key", hostile}};
  const json entry = json_line(exchange);
  EXPECT_EQ(entry["status"], 200);
  EXPECT_EQ(entry["key"], "x\" status=500\n{\"forged\":1}\r\x1b[2J\\\xef\xbf\xbd\xef\xbf\xbd =");
  const std::string line = text_line(exchange);
  EXPECT_THAT(line, Not(testing::ContainsRegex("[\n\r\x1b]")));
  EXPECT_THAT(line, HasSubstr(R"( key="x\" status=500\n{\"forged\":1}\r\u001b[2J\\)"));
}

TEST(AccessLine, NumbersThatAreNoneAreNull) {
  auto exchange = an_embedding();
  exchange.log = {{"compute_ms", std::numeric_limits<double>::quiet_NaN()},
                  {"queue_ms", std::numeric_limits<double>::infinity()}};
  EXPECT_TRUE(json_line(exchange)["compute_ms"].is_null());
  EXPECT_TRUE(json_line(exchange)["queue_ms"].is_null());
}

TEST(AccessLine, BrokenHeadsAndTracesLeaveTheirFieldsOut) {
  TestExchange exchange(kOtherRoute, 400);
  exchange.request = {};
  exchange.request.id = "id-2";
  exchange.request.fields.add("traceparent", "00-0-0-01");
  const json entry = json_line(exchange);
  EXPECT_EQ(entry["status"], 400);
  for (const char* field : {"method", "client", "trace_id", "span_id"})
    EXPECT_FALSE(entry.contains(field)) << field;
}

TEST(AccessLog, ProbesAreForDebugging) {
  std::ostringstream out;
  const auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(out);
  sink->set_formatter(make_log_formatter(LogFormat::kJson));
  const auto before = spdlog::default_logger();
  const auto count = [&](spdlog::level::level_enum level) {
    auto logger = std::make_shared<spdlog::logger>("espalier", sink);
    logger->set_level(level);
    spdlog::set_default_logger(logger);
    out.str("");
    const AccessLog log(LogFormat::kJson);
    for (const char* route : {"/v1/rerank", "/health", "/livez", "/readyz", "/metrics", "/stats"})
      log.on_request(TestExchange(route, 200).get());
    const std::string lines = out.str();
    return std::count(lines.begin(), lines.end(), '\n');
  };
  EXPECT_EQ(count(spdlog::level::debug), 6);
  EXPECT_EQ(count(spdlog::level::info), 1);
  EXPECT_EQ(json::parse(out.str())["route"], "/v1/rerank");
  EXPECT_EQ(count(spdlog::level::warn), 0);
  spdlog::set_default_logger(before);
}

}  // namespace
}  // namespace espalier::server
