// Many connections: slow senders, idle ones, more than there may be.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "raw_client.h"
#include "running_server.h"

namespace espalier::server {
namespace {

using Clients = std::vector<std::unique_ptr<RawClient>>;

const std::string kSlowHead = "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 1000\r\n\r\nabc";

RawClient& add_client(const RunningServer& running, Clients& clients) {
  clients.push_back(std::make_unique<RawClient>(running.port()));
  return *clients.back();
}

TEST(HttpConnections, SlowSendersHoldNoThread) {
  auto options = test_options();
  options.threads = 2;
  RunningServer running(options);
  Clients slow;
  for (int i = 0; i < 100; ++i) add_client(running, slow).send(kSlowHead);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(exchange(running.port(), post("/echo", "x"))->status, 200);
  // They are not forgotten either.
  for (auto& client : slow) client->send(std::string(997, 'd'));
  for (auto& client : slow) {
    const auto response = client->receive();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->body, "|abc" + std::string(997, 'd'));
  }
}

TEST(HttpConnections, SlowChunksHoldNoThread) {
  auto options = test_options();
  options.threads = 1;
  RunningServer running(options);
  RawClient slow(running.port());
  slow.send("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel");
  EXPECT_EQ(exchange(running.port(), post("/echo", "x"))->status, 200);
  slow.send("lo\r\n0\r");
  EXPECT_EQ(exchange(running.port(), post("/echo", "x"))->status, 200);
  slow.send("\n\r\n" + get("/health"));
  EXPECT_EQ(slow.receive()->body, "|hello");
  EXPECT_EQ(slow.receive()->status, 200);
}

TEST(HttpConnections, ClientsThatDoNotLeaveAfterARefusalHoldNoThread) {
  auto options = test_options();
  options.threads = 1;
  RunningServer running(options);
  Clients refused;
  for (int i = 0; i < 20; ++i)
    add_client(running, refused)
        .send("POST /guarded HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n");
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(exchange(running.port(), post("/echo", "x"))->status, 200);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  for (auto& client : refused) EXPECT_EQ(client->receive()->status, 401);
}

TEST(HttpConnections, BodiesBeyondTheirMemoryAreRefusedAndSmallOnesAreNot) {
  auto options = test_options();  // bodies of 1 MiB, so eight of them
  RunningServer running(options);
  const std::string head = "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 1048576\r\n\r\n";
  Clients large;  // seven find room, the rest of it is for small ones
  for (int i = 0; i < 12; ++i) add_client(running, large).send(head + std::string(1'000'000, 'a'));
  int refused = 0;
  for (auto& client : large) {
    const auto response = client->receive(false, std::chrono::milliseconds(500));
    if (!response) continue;
    EXPECT_EQ(response->status, 429);
    ++refused;
  }
  EXPECT_GE(refused, 5);
  EXPECT_LT(refused, 12);
  EXPECT_EQ(exchange(running.port(), post("/echo", std::string(30'000, 'b')))->status, 200);
  large.clear();
  int status = 429;  // until the server has noticed
  for (int i = 0; i < 200 && status != 200; ++i)
    status = exchange(running.port(), post("/echo", std::string(1'000'000, 'b')))->status;
  EXPECT_EQ(status, 200);
}

TEST(HttpConnections, LargeAnswersThatNobodyReadsAreBoundedAndSmallOnesAreNot) {
  auto options = test_options();
  options.body_bytes_max = 1 << 10U;  // so that a thread has to wait for whoever does not read
  options.answer_bytes_max = size_t{40} << 20U;
  options.threads = 8;
  RunningServer running(options);
  Clients unread;
  for (int i = 0; i < 2; ++i) {
    RawClient& client = add_client(running, unread);
    client.send(post("/large", "x"));
    ASSERT_EQ(client.receive(true)->status, 200);  // and reads no more
  }
  auto refused = exchange(running.port(), post("/large", "x"));
  ASSERT_EQ(refused->status, 429);
  EXPECT_NE(refused->body.find("too many large answers"), std::string::npos);
  EXPECT_EQ(refused->headers.count("retry-after"), 1U);
  EXPECT_EQ(exchange(running.port(), post("/echo", "x"))->status, 200);
  unread.clear();
  for (int i = 0; i < 2000 && refused->status != 200; ++i)
    refused = exchange(running.port(), post("/large", "x"));
  EXPECT_EQ(refused->status, 200);
}

TEST(HttpConnections, AnAnswerLargerThanAllMayBeIsWrittenAlone) {
  auto options = test_options();
  options.answer_bytes_max = 1 << 10U;
  RunningServer running(options);
  EXPECT_EQ(exchange(running.port(), post("/large", "x"))->body.size(), size_t{16} << 20U);
}

TEST(HttpConnections, StopWaitsForABodyUnderWay) {
  RunningServer running;
  RawClient slow(running.port());
  slow.send(kSlowHead);
  EXPECT_EQ(exchange(running.port(), post("/echo", "x"))->status, 200);
  running.server().stop();
  EXPECT_FALSE(running.returns(std::chrono::milliseconds(900)));
  slow.send(std::string(997, 'd'));
  EXPECT_EQ(slow.receive()->status, 200);
  EXPECT_TRUE(running.returns());
}

TEST(HttpConnections, AbandonWaitsForNoSlowSenderOrReader) {
  RunningServer running;
  RawClient slow(running.port());
  slow.send(kSlowHead);
  RawClient half(running.port());
  std::string posts;  // more than sockets take
  for (int i = 0; i < 40; ++i) posts += post("/echo", std::string(500'000, 'a'));
  std::thread sender([&] { half.send(posts); });
  RawClient busy(running.port());
  busy.send(post("/wait", "x"));
  running.await_waiting(1);
  running.server().stop();
  running.server().abandon();
  EXPECT_FALSE(running.returns(std::chrono::milliseconds(50)));
  running.release();
  EXPECT_EQ(busy.receive()->status, 200);
  EXPECT_TRUE(running.returns(std::chrono::seconds(10)));
  // Not the client's mistake, and worth another try.
  const auto cut_off = slow.receive();
  ASSERT_TRUE(cut_off);
  EXPECT_EQ(cut_off->status, 503);
  EXPECT_EQ(cut_off->headers.count("retry-after"), 1U);
  EXPECT_EQ(cut_off->headers.at("connection"), "close");
  sender.join();
}

TEST(HttpConnections, WhenTheTableIsFullThoseIdleLongestMakeRoom) {
  auto options = test_options();
  options.connections_max = 20;
  RunningServer running(options);
  RawClient busy(running.port());
  busy.send(post("/wait", "x"));
  running.await_waiting(1);
  RawClient slow(running.port());
  slow.send(kSlowHead);
  Clients idle;
  for (int i = 0; i < 60; ++i) {
    RawClient& client = add_client(running, idle);
    client.send(get("/health"));
    const auto response = client.receive();
    ASSERT_TRUE(response) << i;
    EXPECT_EQ(response->status, 200);
  }
  EXPECT_TRUE(idle.front()->is_closed());
  idle.back()->send(get("/health"));
  EXPECT_EQ(idle.back()->receive()->status, 200);
  // Who is being served, or sends, keeps its connection.
  slow.send(std::string(997, 'd'));
  EXPECT_EQ(slow.receive()->status, 200);
  running.release();
  EXPECT_EQ(busy.receive()->status, 200);
}

TEST(HttpConnections, WhenNoneIsIdleNewOnesWaitForAPlace) {
  auto options = test_options();
  options.connections_max = 2;
  RunningServer running(options);
  Clients busy;
  for (int i = 0; i < 2; ++i) add_client(running, busy).send(post("/wait", "x"));
  running.await_waiting(2);
  Clients late;  // one more than there may be is let in, the other waits
  for (int i = 0; i < 2; ++i) add_client(running, late).send(post("/echo", "late"));
  EXPECT_EQ(late.front()->receive()->status, 200);
  running.release();
  for (auto& client : busy) EXPECT_EQ(client->receive()->status, 200);
  EXPECT_EQ(late.back()->receive()->status, 200);
}

TEST(HttpConnections, WhenNoneIsIdleHalfAHeadMakesRoom) {
  auto options = test_options();
  options.connections_max = 10;
  RunningServer running(options);
  Clients silent;
  for (int i = 0; i < 20; ++i) add_client(running, silent).send("GET /health HTTP/1.1\r\nHo");
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(exchange(running.port(), get("/health"))->status, 200);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  }
}

TEST(HttpConnections, AnswersThatNobodyReadsHoldNoThread) {
  auto options = test_options();
  options.threads = 2;
  options.receive_seconds_max = 5;
  std::vector<std::thread> senders;
  Clients unread;
  {
    RunningServer running(options);
    std::string posts;  // more than sockets take, in both directions
    for (int i = 0; i < 40; ++i) posts += post("/echo", std::string(500'000, 'a'));
    std::string gets;
    for (int i = 0; i < 60'000; ++i) gets += get("/health");
    for (int i = 0; i < 6; ++i) {
      RawClient& client = add_client(running, unread);
      senders.emplace_back([&client, text = i % 2 == 0 ? posts : gets] { client.send(text); });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    for (int i = 0; i < 5; ++i) {
      const auto start = std::chrono::steady_clock::now();
      EXPECT_EQ(exchange(running.port(), post("/echo", "x"))->status, 200);
      EXPECT_EQ(exchange(running.port(), get("/health"))->status, 200);
      EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
    }
    // Reading goes on where it stood.
    for (int i = 0; i < 40; ++i) EXPECT_EQ(unread.front()->receive()->status, 200) << i;
  }
  for (auto& sender : senders) sender.join();
}

TEST(HttpConnections, AnswersThatFindNoMemoryHoldThreadsForAMomentOnly) {
  auto options = test_options();
  options.body_bytes_max = size_t{1} << 16U;  // eight of them may be unread
  options.threads = 2;
  std::string posts;  // more than sockets take
  for (int i = 0; i < 300; ++i) posts += post("/echo", std::string(60'000, 'a'));
  std::vector<std::thread> senders;
  Clients unread;
  {
    RunningServer running(options);
    for (int i = 0; i < 12; ++i) {
      RawClient& client = add_client(running, unread);
      senders.emplace_back([&client, &posts] { client.send(posts); });
    }
    std::this_thread::sleep_for(std::chrono::seconds(1));
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(exchange(running.port(), post("/echo", "x"))->status, 200);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(15));
    running.server().stop();
    running.server().abandon();
  }
  for (auto& sender : senders) sender.join();
}

}  // namespace
}  // namespace espalier::server
