// TLS: handshakes, whole and half, data of all sizes, and certificates that are none.
#include <gmock/gmock.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "raw_client.h"
#include "running_server.h"
#include "test_certificate.h"
#include "tls_client.h"

namespace espalier::server {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class HttpTls : public testing::Test {
 protected:
  HttpTls()
      : tls_(
            std::make_shared<TlsContext>(certificate_.certificate_file(), certificate_.key_file())),
        running_(options()) {}

  HttpServerOptions options() const {
    auto options = test_options();
    options.tls = tls_;
    options.receive_seconds_max = 1;
    return options;
  }
  uint16_t port() const { return running_.port(); }

  void TearDown() override {
    TlsClient client(port());
    client.send(get("/health"));
    EXPECT_THAT(client.receive_answer(), EndsWith("{\"status\":\"ok\"}"));
  }

  TestCertificate certificate_;
  std::shared_ptr<TlsContext> tls_;
  RunningServer running_;
};

TEST_F(HttpTls, AnswersAndKeepsTheConnection) {
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsClient client(port(), version);
    ASSERT_TRUE(client.is_connected());
    EXPECT_EQ(client.version(), version == TLS1_2_VERSION ? "TLSv1.2" : "TLSv1.3");
    for (int i = 0; i < 3; ++i) {
      client.send(post("/echo", "hello"));
      EXPECT_THAT(client.receive_answer(), EndsWith("application/json|hello"));
    }
  }
}

TEST_F(HttpTls, OldVersionsAreRefused) {
  EXPECT_FALSE(TlsClient(port(), TLS1_1_VERSION).is_connected());
  EXPECT_FALSE(TlsClient(port(), TLS1_VERSION).is_connected());
}

TEST_F(HttpTls, PipelinedRequestsInOneRecordAreAllAnswered) {
  TlsClient client(port());
  std::string requests;
  for (int i = 0; i < 50; ++i) requests += post("/echo", std::to_string(i));
  client.send(requests);
  for (int i = 0; i < 50; ++i)
    EXPECT_THAT(client.receive_answer(), EndsWith("|" + std::to_string(i)));
}

TEST_F(HttpTls, LargeBodiesAndAnswersArriveWhole) {
  std::string body(size_t{1} << 20U, 'x');
  for (size_t i = 0; i < body.size(); i += 977) body[i] = 'y';
  TlsClient client(port());
  std::thread sender([&] { client.send(post("/echo", body)); });
  sender.join();
  EXPECT_TRUE(client.receive_answer().ends_with("application/json|" + body));
}

TEST_F(HttpTls, RequestThatArrivesInRecordsOfOneByteIsRead) {
  TlsClient client(port());
  for (const char byte : post("/echo", "slow")) client.send({&byte, 1});
  EXPECT_THAT(client.receive_answer(), EndsWith("|slow"));
}

TEST_F(HttpTls, LastAnswerEndsWithAFarewell) {
  TlsClient client(port());
  client.send(post("/echo", "x", "Connection: close\r\n"));
  EXPECT_THAT(client.receive_answer(), EndsWith("|x"));
  EXPECT_EQ(client.receive(), "");
  EXPECT_TRUE(client.closed_cleanly());
}

TEST_F(HttpTls, RefusalReachesAClientThatKeepsSending) {
  TlsClient client(port());
  client.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 3221225472\r\n\r\n");
  const std::string block(size_t{1} << 18U, 'a');
  for (int i = 0; i < 4; ++i) client.send(block);
  EXPECT_THAT(client.receive_answer(), StartsWith("HTTP/1.1 413"));
}

TEST_F(HttpTls, PlainHttpIsToldSo) {
  for (const std::string& request : {get("/health"), post("/echo", "x"), std::string("x\r\n")}) {
    RawClient client(port());
    client.send(request);
    const auto response = client.receive();
    ASSERT_TRUE(response) << request;
    EXPECT_EQ(response->status, 400);
    EXPECT_THAT(json::parse(response->body)["error"]["message"].get<std::string>(),
                HasSubstr("https://"));
    EXPECT_TRUE(client.is_closed());
  }
}

TEST_F(HttpTls, HalfHandshakesAreDroppedAndHoldNobodyUp) {
  std::vector<std::unique_ptr<RawClient>> half;
  for (int i = 0; i < 100; ++i) {
    half.push_back(std::make_unique<RawClient>(port()));
    if (i % 2 == 0) half.back()->send(std::string_view("\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 9));
  }
  TlsClient client(port());
  client.send(get("/health"));
  EXPECT_THAT(client.receive_answer(), StartsWith("HTTP/1.1 200"));
  EXPECT_TRUE(half.front()->is_closed(std::chrono::seconds(10)));
  EXPECT_TRUE(half.back()->is_closed(std::chrono::seconds(10)));
}

TEST_F(HttpTls, GarbageInAHandshakeAndBehindItEndsTheConnection) {
  RawClient garbage(port());
  garbage.send(std::string("\x16\x03\x01\x00\x10", 5) + std::string(500, 'g'));
  EXPECT_TRUE(garbage.is_closed());
  TlsClient client(port());
  ASSERT_TRUE(client.is_connected());
  const std::string bytes(5000, '\x17');
  ASSERT_EQ(::write(client.fd(), bytes.data(), bytes.size()), 5000);
  EXPECT_EQ(client.receive_answer(), "");
}

TEST_F(HttpTls, ClientsThatVanishAtAnyTimeLeaveNothing) {
  for (int i = 0; i < 60; ++i) {
    TlsClient client(port());
    if (i % 3 == 0) client.send("POST /echo HTTP/1.1\r\nContent-Len");
    if (i % 3 == 1) client.send(post("/echo", std::string(100'000, 'a')));
  }
}

TEST_F(HttpTls, FloodsOfNewKeysKeepNobodyWaiting) {
  TlsClient flooding(port());
  TlsClient other(port());
  // About as much work for the server as it was for the client.
  const auto start = std::chrono::steady_clock::now();
  const std::string flood = flooding.key_updates(100'000);
  const auto work = std::chrono::steady_clock::now() - start;
  flooding.send_raw(flood);  // less than sockets hold
  const auto sent = std::chrono::steady_clock::now();
  for (int i = 0; i < 5; ++i) {
    other.send(get("/health"));
    EXPECT_THAT(other.receive_answer(), StartsWith("HTTP/1.1 200"));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - sent, work / 4);
}

TEST_F(HttpTls, ReloadedCertificateIsForNewConnections) {
  TlsClient before(port());
  EXPECT_EQ(before.server_serial(), certificate_.serial());
  const TestCertificate next;
  std::ofstream(certificate_.certificate_file()) << std::ifstream(next.certificate_file()).rdbuf();
  // The old key does not belong to it: all stays as it was.
  EXPECT_THROW(tls_->reload(), std::runtime_error);
  EXPECT_EQ(TlsClient(port()).server_serial(), certificate_.serial());
  std::ofstream(certificate_.key_file()) << std::ifstream(next.key_file()).rdbuf();
  tls_->reload();
  EXPECT_EQ(TlsClient(port()).server_serial(), next.serial());
  before.send(get("/health"));
  EXPECT_THAT(before.receive_answer(), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpTls, StopAnswersRequestsUnderWay) {
  TlsClient idle(port());
  TlsClient busy(port());
  busy.send(post("/wait", "x"));
  running_.await_waiting(1);
  RunningServer other(options());  // for TearDown's sake only the other one is stopped
  TlsClient held(other.port());
  held.send(post("/wait", "x"));
  other.await_waiting(1);
  other.server().stop();
  other.release();
  EXPECT_THAT(held.receive_answer(), AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("close")));
  EXPECT_TRUE(other.returns());
  running_.release();
  EXPECT_THAT(busy.receive_answer(), StartsWith("HTTP/1.1 200"));
}

std::string failure(const std::string& certificate, const std::string& key) {
  try {
    const TlsContext context(certificate, key);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "none";
}

TEST(TlsContext, MistakesNameTheOptionAndTheFile) {
  const TestCertificate one;
  const TestCertificate other;
  EXPECT_THAT(failure("/no/such.pem", one.key_file()),
              AllOf(HasSubstr("--tls-cert"), HasSubstr("/no/such.pem"), HasSubstr("No such file")));
  EXPECT_THAT(failure(one.certificate_file(), "/no/such.key"),
              AllOf(HasSubstr("--tls-key"), HasSubstr("No such file")));
  EXPECT_THAT(failure("/", one.key_file()), HasSubstr("--tls-cert"));
  EXPECT_THAT(failure(one.certificate_file(), other.key_file()),
              AllOf(HasSubstr("--tls-key"), HasSubstr("does not belong")));
  EXPECT_THAT(failure(one.key_file(), one.key_file()),
              AllOf(HasSubstr("--tls-cert"), HasSubstr("certificate")));
  EXPECT_THAT(failure(one.certificate_file(), one.certificate_file()),
              AllOf(HasSubstr("--tls-key"), HasSubstr("private key")));
  EXPECT_EQ(failure(one.certificate_file(), one.key_file()), "none");
}

TEST(TlsContext, ExpiredCertificateIsServed) {
  const TestCertificate expired(-3600);
  EXPECT_EQ(failure(expired.certificate_file(), expired.key_file()), "none");
}

}  // namespace
}  // namespace espalier::server
