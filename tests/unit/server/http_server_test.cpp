#include "server/http/http_server.h"

#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>
#include <vector>

#include "raw_client.h"
#include "running_server.h"

namespace espalier::server {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

TEST(HttpServer, SendsHeadAndBodyAtOnce) {
  RunningServer running;
  RawClient client(running.port());
  for (int i = 0; i < 200; ++i) {
    client.send(post("/echo", "whole"));
    // A second send would come later, more often than not.
    EXPECT_THAT(client.receive_once(), EndsWith("application/json|whole"));
  }
}

TEST(HttpServer, AnswersAndKeepsTheConnection) {
  RunningServer running;
  RawClient client(running.port());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.send(post("/echo", "hello", "Accept-Encoding: gzip, br\r\n")));
    const auto response = client.receive();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->status, 200);
    EXPECT_EQ(response->body, "application/json|hello");
    EXPECT_EQ(response->headers.at("connection"), "keep-alive");
    EXPECT_EQ(response->headers.at("content-type"), "text/plain");
  }
}

TEST(HttpServer, RefusesARequestBeforeItsBodyIsSent) {
  RunningServer running;
  RawClient client(running.port());
  client.send("POST /guarded HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
  const auto response = client.receive();  // although no byte of the body was sent
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 401);
  EXPECT_TRUE(client.is_closed());
}

TEST(HttpServer, HandlersSeeWhoAsksAndForHowLong) {
  RunningServer running;
  const std::string fields = "Authorization: let me in\r\n";
  EXPECT_EQ(exchange(running.port(), post("/guarded", "x", fields))->body, "127.0.0.1|none");
  EXPECT_EQ(exchange(running.port(), post("/guarded", "x", fields + "X-Request-Timeout-Ms: 70\r\n"))
                ->body,
            "127.0.0.1|70");
}

TEST(HttpServer, ATrustedProxyNamesTheClientOfEachRequest) {
  auto options = test_options();
  options.trusted_proxies = TrustedProxies({"127.0.0.1"});
  RunningServer running(std::move(options));
  RawClient proxy(running.port());
  const auto client_with = [&](const std::string& fields) {
    proxy.send(post("/guarded", "x", "Authorization: let me in\r\n" + fields));
    const auto answer = proxy.receive();
    return answer ? answer->body : "none";
  };
  EXPECT_EQ(client_with("X-Forwarded-For: 192.0.2.7\r\n"), "192.0.2.7|none");
  EXPECT_EQ(client_with("x-forwarded-for: 192.0.2.7\r\nX-FORWARDED-FOR: [2001:db8::1]:80\r\n"),
            "2001:db8::1|none");
  EXPECT_EQ(client_with(""), "127.0.0.1|none");
}

TEST(HttpServer, OtherPeersNameNobody) {
  auto options = test_options();
  options.trusted_proxies = TrustedProxies({"127.0.0.2", "10.0.0.0/8"});
  RunningServer running(std::move(options));
  const std::string fields = "Authorization: let me in\r\nX-Forwarded-For: 192.0.2.7\r\n";
  EXPECT_EQ(exchange(running.port(), post("/guarded", "x", fields))->body, "127.0.0.1|none");
}

TEST(HttpServer, ClosesWhenTheClientAsksForIt) {
  RunningServer running;
  RawClient client(running.port());
  client.send(post("/echo", "x", "Connection: Close\r\n"));
  EXPECT_EQ(client.receive()->headers.at("connection"), "close");
  EXPECT_TRUE(client.is_closed());
}

TEST(HttpServer, Http10ClosesUnlessAskedToKeep) {
  RunningServer running;
  RawClient client(running.port());
  client.send("GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(client.receive()->headers.at("connection"), "keep-alive");
  client.send("GET /health HTTP/1.0\r\n\r\n");
  EXPECT_EQ(client.receive()->status, 200);
  EXPECT_TRUE(client.is_closed());
}

TEST(HttpServer, PipelinedRequestsAreAnsweredInOrder) {
  RunningServer running;
  RawClient client(running.port());
  std::string requests;
  for (int i = 0; i < 20; ++i) requests += post("/echo", std::to_string(i)) + get("/health");
  ASSERT_TRUE(client.send(requests));
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(client.receive()->body, "application/json|" + std::to_string(i));
    EXPECT_EQ(client.receive()->body, "{\"status\":\"ok\"}");
  }
}

TEST(HttpServer, HeadHasNoBody) {
  RunningServer running;
  RawClient client(running.port());
  client.send("HEAD /health HTTP/1.1\r\nHost: test\r\n\r\n");
  const auto head = client.receive(true);
  EXPECT_EQ(head->status, 200);
  EXPECT_EQ(head->headers.at("content-length"), "15");
  client.send(get("/health"));
  EXPECT_EQ(client.receive()->body, "{\"status\":\"ok\"}");
}

TEST(HttpServer, UnknownPathIs404AndWrongMethodIs405WithAllow) {
  RunningServer running;
  EXPECT_EQ(exchange(running.port(), get("/nothing"))->status, 404);
  EXPECT_EQ(exchange(running.port(), post("/nothing", "{}"))->status, 404);
  const auto get_echo = exchange(running.port(), get("/echo"));
  EXPECT_EQ(get_echo->status, 405);
  EXPECT_EQ(get_echo->headers.at("allow"), "POST");
  EXPECT_THAT(json::parse(get_echo->body)["error"]["message"].get<std::string>(),
              HasSubstr("POST"));
  const auto post_health = exchange(running.port(), post("/health", "{}"));
  EXPECT_EQ(post_health->status, 405);
  EXPECT_EQ(post_health->headers.at("allow"), "GET, HEAD");
  for (const std::string method : {"PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW"}) {
    const auto answer = exchange(running.port(), method + " /echo HTTP/1.1\r\nHost: test\r\n\r\n");
    ASSERT_TRUE(answer) << method;
    EXPECT_EQ(answer->status, 405) << method;
  }
}

TEST(HttpServer, QueryStringsAndAbsoluteTargetsReachTheRoute) {
  RunningServer running;
  EXPECT_EQ(exchange(running.port(), get("/health?verbose=1"))->status, 200);
  EXPECT_EQ(exchange(running.port(), get("http://test/health"))->status, 200);
}

TEST(HttpServer, RangesAndCompressionAreNotOffered) {
  RunningServer running;
  RawClient client(running.port());
  client.send(
      "GET /health HTTP/1.1\r\nHost: test\r\nRange: bytes=0-3\r\nAccept-Encoding: br\r\n\r\n");
  const auto response = client.receive();
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(response->body, "{\"status\":\"ok\"}");
  EXPECT_EQ(response->headers.count("content-encoding"), 0U);
}

TEST(HttpServer, HandlerThatThrowsGives500AndTheServerLivesOn) {
  RunningServer running;
  const auto response = exchange(running.port(), get("/throw"));
  EXPECT_EQ(response->status, 500);
  EXPECT_THAT(response->body, testing::Not(HasSubstr("oops")));
  EXPECT_EQ(exchange(running.port(), get("/health"))->status, 200);
}

TEST(HttpServer, ObserverSeesRouteAndStatus) {
  RunningServer running;
  exchange(running.port(), get("/health"));
  exchange(running.port(), post("/echo", "x"));
  exchange(running.port(), get("/secret/path"));
  exchange(running.port(), get("/echo"));
  exchange(running.port(), "nonsense\r\n\r\n");
  EXPECT_THAT(running.observed(5), UnorderedElementsAre("/health 200", "/echo 200", "other 404",
                                                        "other 405", "other 400"));
}

TEST(HttpServer, PortInUseIsAnErrorThatNamesTheMend) {
  RunningServer running;
  auto options = test_options();
  options.port = running.port();
  HttpServer second(options, [](const HttpExchange&) {});
  try {
    second.bind();
    FAIL() << "bound a port in use";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("in use"));
    EXPECT_THAT(error.what(), HasSubstr("--port"));
  }
}

TEST(HttpServer, UnknownHostIsAnError) {
  auto options = test_options();
  options.host = "256.1.1.1";
  HttpServer server(options, [](const HttpExchange&) {});
  EXPECT_THROW(server.bind(), std::runtime_error);
}

TEST(HttpServer, IdleConnectionsHoldNoThread) {
  auto options = test_options();
  options.threads = 2;
  RunningServer running(options);
  std::vector<std::unique_ptr<RawClient>> idle;
  for (int i = 0; i < 200; ++i) {
    idle.push_back(std::make_unique<RawClient>(running.port()));
    if (i % 2 == 0) continue;  // half of them have been used before
    idle.back()->send(get("/health"));
    ASSERT_EQ(idle.back()->receive()->status, 200);
  }
  EXPECT_EQ(exchange(running.port(), post("/echo", "x"))->status, 200);
  idle.front()->send(get("/health"));
  EXPECT_EQ(idle.front()->receive()->status, 200);
}

TEST(HttpServer, ProbesAreAnsweredWhileEveryThreadWaits) {
  auto options = test_options();
  options.threads = 2;
  RunningServer running(options);
  RawClient first(running.port());
  RawClient second(running.port());
  first.send(post("/wait", ""));
  second.send(post("/wait", ""));
  running.await_waiting(2);
  EXPECT_EQ(exchange(running.port(), get("/health"))->status, 200);
  running.release();
  EXPECT_EQ(first.receive()->status, 200);
  EXPECT_EQ(second.receive()->status, 200);
}

TEST(HttpServer, IdleConnectionsAreClosedAfterAWhile) {
  auto options = test_options();
  options.idle_seconds_max = 1;
  RunningServer running(options);
  RawClient client(running.port());
  client.send(get("/health"));
  EXPECT_EQ(client.receive()->status, 200);
  EXPECT_TRUE(client.is_closed(std::chrono::seconds(10)));
}

TEST(HttpServer, NoticesThatTheClientHasGone) {
  RunningServer running;
  {
    RawClient client(running.port());
    client.send(post("/wait", "x"));
    running.await_waiting(1);
  }
  EXPECT_THAT(running.observed(1), ElementsAre("/wait 499"));
}

TEST(HttpServer, ClientThatHalfClosesGetsAShortRequestsAnswer) {
  RunningServer running;
  RawClient client(running.port());
  client.send(post("/echo", "x"));
  client.half_close();
  EXPECT_EQ(client.receive()->status, 200);
  EXPECT_TRUE(client.is_closed());
}

TEST(HttpServer, RoutesAreReplacedForRequestsThatComeLater) {
  RunningServer running;
  RawClient waiting(running.port());
  waiting.send(post("/wait", ""));
  running.await_waiting(1);
  running.server().replace_routes({{"GET", "/new", [](const HttpRequest&) {
                                      HttpResponse response;
                                      response.status = 201;
                                      return response;
                                    }}});
  RawClient later(running.port());
  later.send(get("/new"));
  EXPECT_EQ(later.receive()->status, 201);
  later.send(get("/health"));
  EXPECT_EQ(later.receive()->status, 404);
  running.release();
  EXPECT_EQ(waiting.receive()->status, 200);
}

TEST(HttpServerStop, BeforeServeMakesItReturn) {
  HttpServer server(test_options(), [](const HttpExchange&) {});
  server.bind();
  server.stop();
  server.serve({});
  server.stop();
}

TEST(HttpServerStop, AnswersWhoeverTheKernelHadConnected) {
  HttpServer server(test_options(), [](const HttpExchange&) {});
  const uint16_t port = server.bind();
  RawClient early(port);
  early.send(get("/nothing"));
  server.stop();
  std::thread thread([&] { server.serve({}); });
  const auto response = early.receive();
  thread.join();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 404);
}

TEST(HttpServerStop, ServeWithoutBindIsRefused) {
  HttpServer server(test_options(), [](const HttpExchange&) {});
  EXPECT_THROW(server.serve({}), std::logic_error);
}

TEST(HttpServerStop, FromManyThreadsAtOnceReturnsOnce) {
  RunningServer running;
  std::vector<std::thread> stoppers;
  for (int i = 0; i < 4; ++i) stoppers.emplace_back([&] { running.server().stop(); });
  for (auto& stopper : stoppers) stopper.join();
  EXPECT_TRUE(running.returns());
}

TEST(HttpServerStop, FinishesRequestsUnderWayAndClosesIdleConnections) {
  RunningServer running;
  RawClient idle(running.port());
  idle.send(get("/health"));
  ASSERT_EQ(idle.receive()->status, 200);
  RawClient busy(running.port());
  busy.send(post("/wait", "x"));
  running.await_waiting(1);

  running.server().stop();
  EXPECT_TRUE(idle.is_closed());
  EXPECT_FALSE(running.returns(std::chrono::milliseconds(50)));
  running.release();
  const auto response = busy.receive();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(response->headers.at("connection"), "close");
  EXPECT_TRUE(busy.is_closed());
  EXPECT_TRUE(running.returns());
  EXPECT_THROW(RawClient(running.port()), std::runtime_error);
}

TEST(HttpServerStop, AnswersARequestThatHadArrived) {
  auto options = test_options();
  options.threads = 1;
  RunningServer running(options);
  RawClient busy(running.port());
  busy.send(post("/wait", "x"));
  running.await_waiting(1);
  RawClient queued(running.port());  // waits for the only thread
  queued.send(post("/echo", "late"));
  running.server().stop();
  running.release();
  EXPECT_EQ(busy.receive()->status, 200);
  const auto response = queued.receive();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->body, "application/json|late");
}

TEST(HttpServerStop, AnswersWhatComesOnAKeptConnectionJustThen) {
  RunningServer running;
  RawClient kept(running.port());
  kept.send(get("/health"));
  ASSERT_EQ(kept.receive()->headers.at("connection"), "keep-alive");
  running.server().stop();
  EXPECT_FALSE(running.returns(std::chrono::milliseconds(50)));
  kept.send(post("/echo", "late"));
  const auto response = kept.receive();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->body, "application/json|late");
  EXPECT_EQ(response->headers.at("connection"), "close");
  EXPECT_TRUE(kept.is_closed());
  EXPECT_TRUE(running.returns());
}

TEST(HttpServerStop, LosesNoRequestOfConnectionsInUse) {
  RunningServer running;
  std::atomic<int> asked = 0;
  std::atomic<int> lost = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 16; ++i) {
    clients.emplace_back([&] {
      RawClient client(running.port());
      while (true) {
        client.send(post("/echo", "x"));
        const auto response = client.receive();
        ++asked;
        if (!response) ++lost;
        if (!response || response->headers.at("connection") == "close") return;
      }
    });
  }
  while (asked < 200) std::this_thread::yield();
  running.server().stop();
  for (auto& client : clients) client.join();
  EXPECT_EQ(lost, 0);
  EXPECT_TRUE(running.returns());
}

TEST(HttpServerStop, WhatIsPipelinedBehindTheLastAnswerDoesNotResetIt) {
  RunningServer running;
  RawClient client(running.port());
  client.send(post("/wait", "x"));
  running.await_waiting(1);
  client.send(post("/echo", "behind it"));
  running.server().stop();
  running.release();
  EXPECT_EQ(client.receive()->headers.at("connection"), "close");
  EXPECT_TRUE(client.is_closed());
  EXPECT_FALSE(client.was_reset());
}

TEST(HttpServerStop, WaitsForNobodyWhoSendsBlankLines) {
  RunningServer running;
  RawClient flood(running.port());
  std::thread sender([&] {
    while (flood.send("\r\n\r\n\r\n\r\n")) {
    }
  });
  running.server().stop();
  EXPECT_TRUE(running.returns(std::chrono::seconds(10)));
  sender.join();
}

TEST(HttpServerStop, WaitsOnlyShortlyForConnectionsWithoutARequest) {
  RunningServer running;
  RawClient silent(running.port());
  RawClient partial(running.port());
  partial.send("POST /echo HTTP/1.1\r\nHost:");
  running.server().stop();
  EXPECT_TRUE(running.returns(std::chrono::seconds(10)));
}

}  // namespace
}  // namespace espalier::server
