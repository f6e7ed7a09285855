// Heads and senders that mean no good: each gets an answer or a closed connection, and the server
// lives on.
#include <gmock/gmock.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "raw_client.h"
#include "running_server.h"

namespace espalier::server {
namespace {

using nlohmann::json;

class HttpHostile : public testing::Test {
 protected:
  HttpHostile()
      : running_([] {
          auto options = test_options();
          options.receive_seconds_max = 1;
          return options;
        }()) {}

  void TearDown() override {
    const auto healthy = exchange(running_.port(), get("/health"));
    ASSERT_TRUE(healthy);
    EXPECT_EQ(healthy->status, 200);
  }

  /// Expects a JSON error with `status`, after which the connection is closed.
  void expect_error_and_close(const std::string& bytes, int status) {
    RawClient client(running_.port());
    client.send(bytes);
    const auto response = client.receive();
    ASSERT_TRUE(response) << bytes.substr(0, 200);
    EXPECT_EQ(response->status, status) << bytes.substr(0, 200);
    EXPECT_FALSE(json::parse(response->body)["error"]["message"].get<std::string>().empty());
    EXPECT_EQ(response->headers.at("connection"), "close");
    EXPECT_TRUE(client.is_closed());
  }

  RunningServer running_;
};

TEST_F(HttpHostile, MalformedHeadsAre400) {
  for (const std::string head : {
           "GET /health\r\n\r\n",
           "GET  /health HTTP/1.1\r\nHost: t\r\n\r\n",
           "GET /health HTTP/1.1\nHost: t\n\n",
           "GET /health HTTP/2.0\r\nHost: t\r\n\r\n",
           "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
           "GET /health HTTP/1.1\r\nHost : t\r\n\r\n",
           "GET /health HTTP/1.1\r\nHost: t\r\n folded\r\n\r\n",
           "GET /health HTTP/1.1\r\nHost: t\r\nnocolon\r\n\r\n",
           "GET /health HTTP/1.1\r\nHost: t\x01\r\n\r\n",
           "GET /health HTTP/1.1\r\n\r\n",
           "GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
           "G@T /health HTTP/1.1\r\nHost: t\r\n\r\n",
           "GET health HTTP/1.1\r\nHost: t\r\n\r\n",
       }) {
    expect_error_and_close(head, 400);
  }
}

TEST_F(HttpHostile, TlsHandshakeIsRefusedAtOnce) {
  RawClient client(running_.port());
  client.send(std::string_view("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11));
  EXPECT_EQ(client.receive()->status, 400);
  EXPECT_TRUE(client.is_closed());
}

TEST_F(HttpHostile, SmugglingShapesAre400) {
  const std::string start = "POST /echo HTTP/1.1\r\nHost: t\r\n";
  for (const std::string fields : {
           "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
           "Content-Length: 5\r\nContent-Length: 6\r\n",
           "Content-Length: 5, 5\r\n",
           "Content-Length: +5\r\n",
           "Content-Length: -1\r\n",
           "Content-Length: 0x5\r\n",
           "Content-Length: \r\n",
           "Transfer-Encoding: gzip, chunked\r\n",
           "Transfer-Encoding: identity\r\n",
           "Transfer-Encoding: xchunked\r\n",
           "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
           "Transfer-Encoding : chunked\r\n",
           "Transfer-Encoding:\x0b"
           "chunked\r\n",
       }) {
    expect_error_and_close(start + fields + "\r\n0\r\n\r\nGET /health HTTP/1.1\r\n\r\n", 400);
  }
}

TEST_F(HttpHostile, LongUrlsAre400) {
  expect_error_and_close("GET /" + std::string(9000, 'a') + " HTTP/1.1\r\nHost: t\r\n\r\n", 400);
}

TEST_F(HttpHostile, LongHeadsAre431) {
  expect_error_and_close(
      "GET /health HTTP/1.1\r\nHost: t\r\nX: " + std::string(40'000, 'a') + "\r\n\r\n", 431);
  expect_error_and_close("GET /health HTTP/1.1\r\nX: " + std::string(2'000'000, 'a'), 431);
  std::string many = "GET /health HTTP/1.1\r\nHost: t\r\n";
  for (int i = 0; i < 200; ++i) many += "X: y\r\n";
  expect_error_and_close(many + "\r\n", 431);
}

TEST_F(HttpHostile, PercentEncodedPathsReachNoOtherRoute) {
  EXPECT_EQ(exchange(running_.port(), get("/%68ealth"))->status, 404);
  EXPECT_EQ(exchange(running_.port(), get("/health/../echo"))->status, 404);
  EXPECT_EQ(exchange(running_.port(), get("/health%00"))->status, 404);
}

TEST_F(HttpHostile, EmptyLinesBeforeARequestAreSkipped) {
  RawClient client(running_.port());
  client.send("\r\n\r\n\r\n" + get("/health"));
  EXPECT_EQ(client.receive()->status, 200);
}

TEST_F(HttpHostile, HeadThatArrivesByteByByteIsRead) {
  RawClient client(running_.port());
  for (const char byte : post("/echo", "slow")) client.send({&byte, 1});
  EXPECT_EQ(client.receive()->body, "application/json|slow");
}

TEST_F(HttpHostile, SenderThatStallsInTheHeadIsDropped) {
  std::vector<std::unique_ptr<RawClient>> stalling;  // more than there are threads
  for (int i = 0; i < 40; ++i) {
    stalling.push_back(std::make_unique<RawClient>(running_.port()));
    stalling.back()->send("POST /echo HTTP/1.1\r\nHost: t\r\nX: ");
  }
  EXPECT_EQ(exchange(running_.port(), post("/echo", "x"))->status, 200);
  EXPECT_TRUE(stalling.front()->is_closed(std::chrono::seconds(10)));
  EXPECT_TRUE(stalling.back()->is_closed(std::chrono::seconds(10)));
}

TEST_F(HttpHostile, SenderThatStallsInTheBodyGets400) {
  RawClient client(running_.port());
  client.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_EQ(client.receive()->status, 400);
  EXPECT_TRUE(client.is_closed());
}

TEST_F(HttpHostile, SenderThatDripsItsBodyIsCutOff) {
  RawClient client(running_.port());
  client.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 1000\r\n\r\n");
  const auto start = std::chrono::steady_clock::now();
  std::optional<RawResponse> response;
  while (!response && std::chrono::steady_clock::now() - start < std::chrono::seconds(10)) {
    client.send("a");
    response = client.receive(false, std::chrono::milliseconds(100));
  }
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 400);
}

TEST_F(HttpHostile, ConnectionsThatComeAndGoLeaveNothing) {
  for (int i = 0; i < 300; ++i) {
    RawClient client(running_.port());
    if (i % 3 == 0) client.send("POST /echo HTTP/1.1\r\nContent-Len");
    if (i % 3 == 1) client.send(post("/echo", "never read"));
  }
}

}  // namespace
}  // namespace espalier::server
