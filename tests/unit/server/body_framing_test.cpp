#include "server/http/body_framing.h"

#include <gtest/gtest.h>

namespace espalier::server {
namespace {

BodyFraming chunked() {
  RequestHead head;
  head.body = BodyKind::kChunked;
  return BodyFraming(head);
}

TEST(BodyFraming, RequestWithoutABodyIsCompleteAtOnce) {
  EXPECT_TRUE(BodyFraming(RequestHead{}).complete());
  EXPECT_EQ(BodyFraming(RequestHead{}).allowance(10), 0U);
}

TEST(BodyFraming, LengthIsNeverOverrun) {
  RequestHead head;
  head.body = BodyKind::kLength;
  head.content_length = 5;
  BodyFraming framing(head);
  EXPECT_EQ(framing.allowance(100), 5U);
  EXPECT_TRUE(framing.accept("abc"));
  EXPECT_EQ(framing.allowance(100), 2U);
  EXPECT_TRUE(framing.accept("de"));
  EXPECT_TRUE(framing.complete());
  EXPECT_FALSE(framing.accept("f"));
  EXPECT_EQ(framing.content_bytes(), 5U);
}

TEST(BodyFraming, ChunksEndWithTheEmptyOne) {
  BodyFraming framing = chunked();
  EXPECT_TRUE(framing.accept("A;x=y\r\n0123456789\r\n1\r\nz\r\n0\r"));
  EXPECT_FALSE(framing.complete());
  EXPECT_TRUE(framing.accept("\n\r\n"));
  EXPECT_TRUE(framing.complete());
  EXPECT_EQ(framing.content_bytes(), 11U);
}

TEST(BodyFraming, AllowanceStaysWithinAChunk) {
  BodyFraming framing = chunked();
  EXPECT_EQ(framing.allowance(100), 1U);
  EXPECT_TRUE(framing.accept("10\r\n"));
  EXPECT_EQ(framing.allowance(100), 16U);
  EXPECT_EQ(framing.allowance(4), 4U);
}

TEST(BodyFraming, SizesThatAreNotPlainHexadecimalAreMalformed) {
  for (const char* bytes : {"\r\n", "-1\r\n", "+1\r\n", " 1\r\n", "1 \r\n", "0x1\r\n", "g\r\n",
                            ";x\r\n", "1\n", "0000000000000000\r\n", "1;\n"}) {
    EXPECT_FALSE(chunked().accept(bytes)) << bytes;
  }
}

TEST(BodyFraming, ChunkMustEndWhereItsSizeSays) {
  EXPECT_FALSE(chunked().accept("2\r\nabc"));
  EXPECT_FALSE(chunked().accept("2\r\nab\rX"));
  EXPECT_FALSE(chunked().accept("0\r\nTrailer: x\r\n"));
}

}  // namespace
}  // namespace espalier::server
