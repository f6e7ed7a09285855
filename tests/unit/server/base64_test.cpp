#include "server/api/base64.h"

#include <gtest/gtest.h>

#include <vector>

namespace espalier::server {
namespace {

std::string base64_of(const std::vector<float>& values) {
  std::string out;
  append_base64(values, out);
  return out;
}

TEST(Base64, FloatsAreLittleEndian) {
  // 1.0f is 0x3f800000: bytes 00 00 80 3f (checked with Python's base64 and struct).
  EXPECT_EQ(base64_of({1.0F}), "AACAPw==");
  EXPECT_EQ(base64_of({1.0F, -2.0F}), "AACAPwAAAMA=");
  EXPECT_EQ(base64_of({1.0F, -2.0F, 0.1F}), "AACAPwAAAMDNzMw9");
}

TEST(Base64, NothingGivesNothing) { EXPECT_EQ(base64_of({}), ""); }

TEST(Base64, AppendsBehindWhatIsThere) {
  std::string out = "\"";
  append_base64(std::vector<float>{1.0F}, out);
  EXPECT_EQ(out, "\"AACAPw==");
}

}  // namespace
}  // namespace espalier::server
