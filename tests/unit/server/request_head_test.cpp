#include "server/http/request_head.h"

#include <gtest/gtest.h>

namespace espalier::server {
namespace {

RequestHead parsed(const std::string& head) {
  auto result = parse_request_head(head);
  EXPECT_TRUE(result) << result.error().message;
  return result.value_or(RequestHead{});
}

TEST(RequestHead, FieldsThatMatterAreRead) {
  const auto head = parsed(
      "POST /v1/embeddings?x=1 HTTP/1.1\r\nHost: a\r\nCONTENT-TYPE: Application/JSON; "
      "charset=utf-8\r\ncontent-length:\t12 \r\nContent-Encoding: GZIP\r\nExpect: "
      "100-Continue\r\nX-Other: \xc3\xa9\r\nEmpty:\r\n\r\n");
  EXPECT_EQ(head.method, "POST");
  EXPECT_EQ(head.path, "/v1/embeddings");
  EXPECT_EQ(head.content_type, "application/json");
  EXPECT_EQ(head.content_encoding, "gzip");
  EXPECT_EQ(head.body, BodyKind::kLength);
  EXPECT_EQ(head.content_length, 12U);
  EXPECT_TRUE(head.expects_continue);
  EXPECT_TRUE(head.keep_alive);
}

TEST(RequestHead, WhoAsksAndForHowLongAreReadAsSent) {
  const auto head = parsed(
      "GET / HTTP/1.1\r\nHost: a\r\nAUTHORIZATION:  Bearer Abc \r\nx-request-timeout-ms: 1e3\r\n"
      "\r\n");
  ASSERT_NE(head.fields.find("authorization"), nullptr);
  EXPECT_EQ(*head.fields.find("authorization"), "Bearer Abc");
  ASSERT_NE(head.fields.find("x-request-timeout-ms"), nullptr);
  EXPECT_EQ(*head.fields.find("x-request-timeout-ms"), "1e3");
  const auto without = parsed("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(without.fields.find("authorization"), nullptr);
  EXPECT_EQ(without.fields.find("x-request-timeout-ms"), nullptr);
}

TEST(RequestHead, FieldsThatAProxyMayHaveCheckedMustNotOccurTwice) {
  for (const std::string field :
       {"authorization", "x-request-timeout-ms", "x-request-id", "origin", "traceparent"}) {
    const auto result = parse_request_head("GET / HTTP/1.1\r\nHost: a\r\n" + field + ":\r\n" +
                                           field + ": 1\r\n\r\n");
    ASSERT_FALSE(result) << field;
    EXPECT_EQ(result.error().message, "the header field `" + std::string(field) + "` occurs twice");
  }
}

TEST(RequestHead, ConnectionOptionsAreAList) {
  EXPECT_FALSE(parsed("GET / HTTP/1.1\r\nHost: a\r\nConnection: foo , CLOSE\r\n\r\n").keep_alive);
  EXPECT_TRUE(parsed("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\n\r\n").keep_alive);
  EXPECT_FALSE(parsed("GET / HTTP/1.0\r\n\r\n").keep_alive);
  EXPECT_TRUE(parsed("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").keep_alive);
}

TEST(RequestHead, LengthBeyond64BitsIsTheLargest) {
  const auto length_of = [](const std::string& digits) {
    return parsed("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: " + digits + "\r\n\r\n")
        .content_length;
  };
  EXPECT_EQ(length_of("18446744073709551614"), UINT64_MAX - 1);
  EXPECT_EQ(length_of("18446744073709551616"), UINT64_MAX);
  EXPECT_EQ(length_of("99999999999999999999999"), UINT64_MAX);
  EXPECT_EQ(length_of("000000000000000000000000005"), 5U);
}

TEST(RequestHead, IdentityIsNoEncoding) {
  EXPECT_EQ(
      parsed("GET / HTTP/1.1\r\nHost: a\r\nContent-Encoding: identity\r\n\r\n").content_encoding,
      "");
}

TEST(RequestHead, IsFoundAsItsBytesArrive) {
  const std::string whole = "GET / HTTP/1.1\r\nHost: a\r\n\r\nrest";
  size_t scanned = 0;
  for (size_t bytes = 0; bytes < whole.size() - 4; ++bytes) {
    EXPECT_EQ(find_head(std::string_view(whole).substr(0, bytes), scanned).state,
              HeadState::kIncomplete);
  }
  const auto extent = find_head(whole, scanned);
  EXPECT_EQ(extent.state, HeadState::kComplete);
  EXPECT_EQ(extent.bytes, whole.size() - 4);
  EXPECT_EQ(find_head(whole, scanned).state, HeadState::kComplete);  // still, when asked again
}

TEST(RequestHead, LimitIsTheCallers) {
  const std::string head = "GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(2000, 'x') + "\r\n\r\n";
  EXPECT_TRUE(parse_request_head(head, 4096));
  const auto refused = parse_request_head(head, 1024);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kHeaderTooLarge);
  EXPECT_EQ(refused.error().code, "header_too_large");
}

TEST(RequestHead, IsBrokenByBareLineFeedsBinaryBytesAndLength) {
  const auto state_of = [](std::string_view bytes) {
    size_t scanned = 0;
    return find_head(bytes, scanned).state;
  };
  EXPECT_EQ(state_of("GET / HTTP/1.1\n"), HeadState::kBroken);
  EXPECT_EQ(state_of("\x16\x03"), HeadState::kBroken);
  EXPECT_EQ(state_of(std::string(kHeadBytesMax + 1, 'a')), HeadState::kBroken);
  EXPECT_EQ(state_of("GET / HTTP/1.1\r\nX: " + std::string(kHeadBytesMax, 'a') + "\r\n\r\n"),
            HeadState::kBroken);
}

}  // namespace
}  // namespace espalier::server
