#include "server/observe/trace_context.h"

#include <gtest/gtest.h>

#include <string>

namespace espalier::server {
namespace {

constexpr char kTrace[] = "0af7651916cd43dd8448eb211c80319c";
constexpr char kSpan[] = "b7ad6b7169203331";

std::string header(const std::string& version, const std::string& trace, const std::string& span,
                   const std::string& flags) {
  return version + "-" + trace + "-" + span + "-" + flags;
}

TEST(TraceContext, IdsAreReadWhateverTheFlags) {
  for (const char* flags : {"00", "01", "ff"}) {
    const std::string value = header("00", kTrace, kSpan, flags);
    const auto context = parse_traceparent(value);
    ASSERT_TRUE(context) << value;
    EXPECT_EQ(context->trace_id, kTrace);
    EXPECT_EQ(context->span_id, kSpan);
  }
}

TEST(TraceContext, LaterVersionsMaySayMoreBehindADash) {
  EXPECT_TRUE(parse_traceparent(header("01", kTrace, kSpan, "01")));
  EXPECT_TRUE(parse_traceparent(header("cc", kTrace, kSpan, "01-what-the-future-brings")));
  EXPECT_TRUE(parse_traceparent(header("cc", kTrace, kSpan, "01-")));
  EXPECT_FALSE(parse_traceparent(header("cc", kTrace, kSpan, "01.what")));
  EXPECT_FALSE(parse_traceparent(header("cc", kTrace, kSpan, "012")));
}

TEST(TraceContext, MalformedOnesAreIgnored) {
  const std::string good = header("00", kTrace, kSpan, "01");
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_FALSE(parse_traceparent(good.substr(0, length))) << length;
  for (size_t at = 0; at < good.size(); ++at) {
    for (const char wrong : {'g', 'A', '_', ' ', '\0', '\xff'}) {
      std::string value = good;
      value[at] = wrong;
      EXPECT_FALSE(parse_traceparent(value)) << value;
    }
  }
  for (const auto& value :
       {header("ff", kTrace, kSpan, "01"), header("00", kTrace, kSpan, "01-"),
        header("00", kTrace, kSpan, "01-more"), header("00", std::string(32, '0'), kSpan, "01"),
        header("00", kTrace, std::string(16, '0'), "01"), header("0", kTrace, kSpan, "01"),
        header("000", kTrace, kSpan, "01"), " " + good, good + " ", good + good}) {
    EXPECT_FALSE(parse_traceparent(value)) << value;
  }
}

}  // namespace
}  // namespace espalier::server
