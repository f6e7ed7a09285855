#include "server/api/embedding_encoding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

namespace espalier::server {
namespace {

using Floats = std::vector<float>;

std::string encoded(const Floats& values, EmbeddingEncoding encoding) {
  std::string out = "before ";
  EXPECT_TRUE(append_embedding(values, encoding, out));
  EXPECT_TRUE(out.starts_with("before "));
  return out.substr(7);
}

constexpr EmbeddingEncoding kAll[] = {EmbeddingEncoding::kFloat,  EmbeddingEncoding::kBase64,
                                      EmbeddingEncoding::kInt8,   EmbeddingEncoding::kUint8,
                                      EmbeddingEncoding::kBinary, EmbeddingEncoding::kUbinary};

TEST(EmbeddingEncodings, NamesAreCoheres) {
  for (const auto encoding : kAll) EXPECT_EQ(embedding_encoding(name_of(encoding)), encoding);
  EXPECT_EQ(name_of(EmbeddingEncoding::kUbinary), "ubinary");
  for (const char* name : {"", "Float", "float ", "int4", "floatt"})
    EXPECT_FALSE(embedding_encoding(name)) << name;
}

TEST(EmbeddingEncodings, BytesAreScaledToTheLargestValue) {
  // 127 × (0.5, -0.25, 0.0021, 0, -1/3) / 0.5
  const Floats values{0.5F, -0.25F, 0.0021F, 0.0F, -1.0F / 3.0F};
  EXPECT_EQ(encoded(values, EmbeddingEncoding::kInt8), "[127,-64,1,0,-85]");
  EXPECT_EQ(encoded(values, EmbeddingEncoding::kUint8), "[255,64,129,128,43]");
  EXPECT_EQ(encoded({-2.0F, 1.0F}, EmbeddingEncoding::kInt8), "[-127,64]");
  EXPECT_EQ(encoded({-2.0F, 1.0F}, EmbeddingEncoding::kUint8), "[1,192]");
}

TEST(EmbeddingEncodings, ExtremeValuesStayWithinABytesRange) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  constexpr float kSmallest = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(encoded({kLargest, -kLargest, 1}, EmbeddingEncoding::kInt8), "[127,-127,0]");
  EXPECT_EQ(encoded({kSmallest, -kSmallest, 0}, EmbeddingEncoding::kInt8), "[127,-127,0]");
  EXPECT_EQ(encoded({2 * kSmallest, kSmallest}, EmbeddingEncoding::kUint8), "[255,192]");
  EXPECT_EQ(encoded({1, kSmallest}, EmbeddingEncoding::kInt8), "[127,0]");
  // What the largest value becomes does not depend on how it divides 127.
  for (float value = 0.01F; value < 1; value += 0.00731F)
    EXPECT_EQ(encoded({value, -value}, EmbeddingEncoding::kInt8), "[127,-127]") << value;
}

TEST(EmbeddingEncodings, ZeroVectorsHaveNoScale) {
  EXPECT_EQ(encoded({0.0F, -0.0F}, EmbeddingEncoding::kInt8), "[0,0]");
  EXPECT_EQ(encoded({0.0F, -0.0F}, EmbeddingEncoding::kUint8), "[128,128]");
  EXPECT_EQ(encoded({0.0F, -0.0F}, EmbeddingEncoding::kUbinary), "[0]");
  EXPECT_EQ(encoded({0.0F, -0.0F}, EmbeddingEncoding::kBinary), "[-128]");
  EXPECT_EQ(encoded({0.0F, -0.0F}, EmbeddingEncoding::kFloat), "[0,-0]");
  EXPECT_EQ(encoded({0.0F, -0.0F}, EmbeddingEncoding::kBase64), "\"AAAAAAAAAIA=\"");
}

TEST(EmbeddingEncodings, BitsAreSignsWithTheFirstOneHighest) {
  const Floats values{1, -1, 1, -1, -1, -1, -1, 1};
  EXPECT_EQ(encoded(values, EmbeddingEncoding::kUbinary), "[161]");
  EXPECT_EQ(encoded(values, EmbeddingEncoding::kBinary), "[33]");
  // Only what is above zero is a 1, however little.
  EXPECT_EQ(encoded({std::numeric_limits<float>::denorm_min(), 0, -0.0F, 1, 1, 1, 1, 1},
                    EmbeddingEncoding::kUbinary),
            "[159]");
}

TEST(EmbeddingEncodings, WhatTheLastByteLacksIsZero) {
  EXPECT_EQ(encoded(Floats(3, 1), EmbeddingEncoding::kUbinary), "[224]");
  EXPECT_EQ(encoded(Floats(3, 1), EmbeddingEncoding::kBinary), "[96]");
  EXPECT_EQ(encoded(Floats(8, 1), EmbeddingEncoding::kUbinary), "[255]");
  EXPECT_EQ(encoded(Floats(8, -1), EmbeddingEncoding::kBinary), "[-128]");
  EXPECT_EQ(encoded(Floats(9, 1), EmbeddingEncoding::kUbinary), "[255,128]");
  EXPECT_EQ(encoded(Floats(17, 1), EmbeddingEncoding::kBinary), "[127,127,0]");
}

TEST(EmbeddingEncodings, FloatsReadBackAsTheSame) {
  EXPECT_EQ(encoded({0.1F, -1e-7F, 3e38F}, EmbeddingEncoding::kFloat), "[0.1,-1e-07,3e+38]");
}

TEST(EmbeddingEncodings, NothingIsAnArrayAllTheSame) {
  for (const auto encoding : kAll) {
    const bool text = encoding == EmbeddingEncoding::kBase64;
    EXPECT_EQ(encoded({}, encoding), text ? "\"\"" : "[]") << name_of(encoding);
  }
}

TEST(EmbeddingEncodings, WhatIsNotFiniteIsRefusedInEveryEncoding) {
  for (const auto encoding : kAll) {
    for (const float value :
         {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
          std::numeric_limits<float>::quiet_NaN()}) {
      std::string out;
      EXPECT_FALSE(append_embedding(Floats{1, value}, encoding, out)) << name_of(encoding);
    }
  }
  EXPECT_EQ(http_status(not_finite(3).kind), 500);
}

TEST(EmbeddingEncodings, NoValueTakesMoreTextThanIsAskedFor) {
  // As long as usual embeddings' values become; those near zero, which take three more, are few.
  const std::vector<float> longest(1024, -0.0123456784F);
  for (const char* const name : {"float", "base64", "int8", "uint8", "binary", "ubinary"}) {
    const auto encoding = *embedding_encoding(name);
    std::string out;
    ASSERT_TRUE(append_embedding(longest, encoding, out));
    EXPECT_LE(2 * out.size(), text_bytes_per_value(encoding) * longest.size() + 64) << name;
  }
}

}  // namespace
}  // namespace espalier::server
