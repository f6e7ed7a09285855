// Bodies: lengths, chunks, encodings, limits.
#include <gmock/gmock.h>
#include <zlib.h>

#include <nlohmann/json.hpp>

#include "raw_client.h"
#include "running_server.h"

namespace espalier::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr size_t kLimit = size_t{1} << 20U;  // test_options().body_bytes_max

/// `window_bits` as zlib has them: 31 for gzip, 15 for deflate.
std::string compress(const std::string& text, int window_bits) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string chunk(const std::string& content) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string size;
  for (size_t rest = content.size(); rest > 0; rest /= 16) size.insert(0, 1, kDigits[rest % 16]);
  return (size.empty() ? "0" : size) + "\r\n" + content + "\r\n";
}

const std::string kChunkedHead =
    "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n"
    "Transfer-Encoding: chunked\r\n";

class HttpBodies : public testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(exchange(running_.port(), get("/health"))->status, 200); }

  RunningServer running_;
};

TEST_F(HttpBodies, ExactlyTheLimitIsTaken) {
  const auto response = exchange(running_.port(), post("/echo", std::string(kLimit, 'a')));
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(response->body.size(), kLimit + std::string("application/json|").size());
}

TEST_F(HttpBodies, ThreeGigabytesOfContentLengthAre413AtOnce) {
  for (const std::string length :
       {"1048577", "3221225472", "18446744073709551615", "99999999999999999999999999"}) {
    RawClient client(running_.port());
    client.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: " + length + "\r\n\r\n");
    const auto response = client.receive();
    ASSERT_TRUE(response) << length;
    EXPECT_EQ(response->status, 413) << length;
    EXPECT_EQ(response->headers.at("connection"), "close");
    EXPECT_TRUE(client.is_closed());
  }
}

TEST_F(HttpBodies, AnswerOf413ReachesAClientThatKeepsSending) {
  RawClient client(running_.port());
  client.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 3221225472\r\n\r\n");
  const std::string block(size_t{1} << 20U, 'a');
  for (int i = 0; i < 4; ++i) client.send(block);
  EXPECT_EQ(client.receive()->status, 413);
}

TEST_F(HttpBodies, ErrorsBeforeTheHandlerHaveTheFormOfTheRoute) {
  const std::string large(kLimit + 1, 'a');
  const std::string encoded =
      "POST /own-form HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\nContent-Encoding: ";
  for (const auto& [request, status] : {std::pair(post("/own-form", large), 413),
                                        {get("/own-form"), 405},
                                        {encoded + "zstd\r\n\r\nhello", 415},
                                        {encoded + "gzip\r\n\r\nhello", 400}}) {
    const auto response = exchange(running_.port(), request);
    ASSERT_TRUE(response) << status;
    EXPECT_EQ(response->status, status);
    EXPECT_EQ(response->body, "in a form of its own");
  }
  EXPECT_THAT(exchange(running_.port(), post("/echo", large))->body, HasSubstr("\"error\""));
}

TEST_F(HttpBodies, ChunksAreJoined) {
  RawClient client(running_.port());
  client.send(kChunkedHead + "\r\n5\r\nhello\r\n6;ext=\"x\"\r\n world\r\n0\r\n\r\n");
  EXPECT_EQ(client.receive()->body, "application/json|hello world");
  client.send(get("/health"));
  EXPECT_EQ(client.receive()->status, 200);
}

TEST_F(HttpBodies, ChunksThatOutgrowTheLimitAre413) {
  RawClient client(running_.port());
  client.send(kChunkedHead + "\r\n");
  const std::string piece = chunk(std::string(65536, 'a'));
  bool sent = true;
  for (int i = 0; i < 64 && sent; ++i) sent = client.send(piece);
  const auto response = client.receive();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 413);
  EXPECT_TRUE(client.is_closed());
}

TEST_F(HttpBodies, MalformedChunksAre400AndEndTheConnection) {
  for (const std::string body :
       {"x\r\n", "-1\r\n", "+5\r\nhello\r\n0\r\n\r\n", "0x5\r\nhello\r\n0\r\n\r\n",
        "5 \r\nhello\r\n0\r\n\r\n", "5\nhello\r\n0\r\n\r\n", "5\r\nhelloXX0\r\n\r\n", "\r\n",
        "ffffffffffffffff\r\n", "5\r\nhello\r\n0\r\nTrailer: x\r\n\r\n",
        "5\r\nhello\r\n0\r\n\rX"}) {
    RawClient client(running_.port());
    client.send(kChunkedHead + "\r\n" + body + get("/health"));
    const auto response = client.receive();
    ASSERT_TRUE(response) << body;
    EXPECT_EQ(response->status, 400) << body;
    EXPECT_TRUE(client.is_closed());
    EXPECT_EQ(client.pending(), "") << body;  // the rest was not taken for a request
  }
}

TEST_F(HttpBodies, ChunkSizeLineWithoutEndIsCut) {
  RawClient client(running_.port());
  client.send(kChunkedHead + "\r\n5;" + std::string(200'000, 'x'));
  EXPECT_EQ(client.receive()->status, 400);
}

TEST_F(HttpBodies, BodyThatEndsEarlyIs400) {
  RawClient client(running_.port());
  client.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\nabc");
  client.half_close();
  EXPECT_EQ(client.receive()->status, 400);
}

TEST_F(HttpBodies, BytesBehindTheBodyAreTheNextRequest) {
  RawClient client(running_.port());
  client.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\nabcdef\r\n\r\n");
  EXPECT_EQ(client.receive()->body, "|abc");
  EXPECT_EQ(client.receive()->status, 400);  // "def" is no request
}

TEST_F(HttpBodies, GzipAndDeflateAreDecoded) {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += std::to_string(i) + ",";
  const auto gzip =
      exchange(running_.port(), post("/echo", compress(text, 31), "Content-Encoding: gzip\r\n"));
  EXPECT_EQ(gzip->body, "application/json|" + text);
  const auto deflate =
      exchange(running_.port(), post("/echo", compress(text, 15), "Content-Encoding: Deflate\r\n"));
  EXPECT_EQ(deflate->body, "application/json|" + text);
}

TEST_F(HttpBodies, GzipThatOutgrowsTheLimitIs413) {
  const std::string bomb = compress(std::string(64 * kLimit, 'a'), 31);
  ASSERT_LT(bomb.size(), kLimit);
  const auto response =
      exchange(running_.port(), post("/echo", bomb, "Content-Encoding: gzip\r\n"));
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 413);
}

TEST_F(HttpBodies, BrotliIsDecoded) {
  const std::string encoded("\x1b\x12\x00\x00\xa4\x40\x58\x6a\x90\x68\x2a\xf1\x9c\x2e", 14);
  const auto response =
      exchange(running_.port(), post("/echo", encoded, "Content-Encoding: br\r\n"));
  ASSERT_TRUE(response);
  EXPECT_EQ(response->body, "application/json|hello, hello, hello");
}

TEST_F(HttpBodies, BrotliThatOutgrowsTheLimitIs413) {
  // 16 MiB of "a", by BrotliEncoderCompress.
  const std::string bomb(
      "\xcb\xff\xff\x3f\x00\x24\xc2\xe2\xb1\x40\x72\xef\xff\xf2\xff\xff\x0f\x80\x04\x40\x1c\x16\x80"
      "\xee\xfd\x1f",
      26);
  const auto response = exchange(running_.port(), post("/echo", bomb, "Content-Encoding: br\r\n"));
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 413);
}

TEST_F(HttpBodies, EncodedBodyThatDecodesToNothingEnds) {
  // Empty stored blocks for ever: content that is sent counts, too.
  RawClient client(running_.port());
  client.send(kChunkedHead + "Content-Encoding: deflate\r\n\r\n" + chunk("\x78\x9c"));
  std::string blocks;
  for (int i = 0; i < 10'000; ++i) blocks.append("\x00\x00\x00\xff\xff", 5);
  bool sent = true;
  for (int i = 0; i < 60 && sent; ++i) sent = client.send(chunk(blocks));
  const auto response = client.receive();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 413);
}

TEST_F(HttpBodies, MalformedGzipIs400) {
  std::string broken = compress("a text that is long enough to be broken", 31);
  broken[12] = static_cast<char>(broken[12] ^ 0x55);
  for (const std::string& body : {broken, std::string("not gzip at all")}) {
    const auto response =
        exchange(running_.port(), post("/echo", body, "Content-Encoding: gzip\r\n"));
    ASSERT_TRUE(response);
    EXPECT_EQ(response->status, 400);
    EXPECT_THAT(json::parse(response->body)["detail"].get<std::string>(), HasSubstr("gzip"));
  }
}

TEST_F(HttpBodies, OtherEncodingsAre415) {
  for (const std::string encoding : {"zstd", "gzip, gzip", "unbr", "compress"}) {
    const auto response =
        exchange(running_.port(), post("/echo", "{}", "Content-Encoding: " + encoding + "\r\n"));
    ASSERT_TRUE(response);
    EXPECT_EQ(response->status, 415) << encoding;
  }
}

TEST_F(HttpBodies, ExpectContinueIsAnsweredBeforeTheBody) {
  RawClient client(running_.port());
  client.send(
      "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.receive()->status, 100);
  client.send("ok");
  EXPECT_EQ(client.receive()->body, "|ok");
}

TEST_F(HttpBodies, ExpectContinueOfATooLargeBodyGets413Instead) {
  RawClient client(running_.port());
  client.send(
      "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 9999999\r\n"
      "Expect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.receive()->status, 413);
}

TEST_F(HttpBodies, MultipartFormsAreBytesLikeOthers) {
  const auto response =
      exchange(running_.port(),
               "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Type: multipart/form-data; boundary=b\r\n"
               "Content-Length: 5\r\n\r\n--b\r\n");
  EXPECT_EQ(response->body, "multipart/form-data|--b\r\n");
}

TEST_F(HttpBodies, GetWithABodyIsAnsweredAndTheConnectionClosed) {
  RawClient client(running_.port());
  client.send("GET /health HTTP/1.1\r\nHost: t\r\nContent-Length: 30\r\n\r\n" + get("/echo"));
  const auto response = client.receive();
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(response->headers.at("connection"), "close");
  EXPECT_TRUE(client.is_closed());
}

TEST_F(HttpBodies, GetDoesNotWaitForItsBody) {
  RawClient client(running_.port());
  client.send("GET /health HTTP/1.1\r\nHost: t\r\nContent-Length: 30\r\n\r\n");
  EXPECT_EQ(client.receive(false, std::chrono::seconds(5)).value_or(RawResponse{}).status, 200);
  EXPECT_TRUE(client.is_closed());
}

TEST_F(HttpBodies, PostWithoutABodyHasAnEmptyOne) {
  EXPECT_EQ(exchange(running_.port(), "POST /echo HTTP/1.1\r\nHost: t\r\n\r\n")->body, "|");
}

TEST_F(HttpBodies, LargeAnswersArriveWhole) {
  std::string body(kLimit, 'x');
  for (size_t i = 0; i < body.size(); i += 977) body[i] = 'y';
  EXPECT_EQ(exchange(running_.port(), post("/echo", body))->body, "application/json|" + body);
}

TEST_F(HttpBodies, MayBeAllowedLessWhileTheServerRuns) {
  HttpMemory memory;
  memory.body_bytes_max = 1000;
  memory.bodies = memory.answers = memory.unsent = size_t{1} << 20U;
  running_.server().limit_memory(memory);
  EXPECT_EQ(exchange(running_.port(), post("/echo", std::string(1000, 'a')))->status, 200);
  const auto refused = exchange(running_.port(), post("/echo", std::string(1001, 'a')));
  EXPECT_EQ(refused->status, 413);
  EXPECT_NE(refused->body.find("larger than 1000 bytes"), std::string::npos);
  memory.body_bytes_max = 2 * kLimit;  // never more than the options say
  running_.server().limit_memory(memory);
  EXPECT_EQ(exchange(running_.port(), post("/echo", std::string(kLimit + 1, 'a')))->status, 413);
}

}  // namespace
}  // namespace espalier::server
