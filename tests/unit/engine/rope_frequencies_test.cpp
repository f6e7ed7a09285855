#include "engine/rope_frequencies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

#include "tests/reference/rope.h"

namespace espalier::engine {
namespace {

using Kind = RopeScaling::Kind;

RopeScaling scaling_of(Kind kind, double factor, double original_positions = 0) {
  RopeScaling scaling;
  scaling.kind = kind;
  scaling.factor = factor;
  scaling.original_positions = original_positions;
  return scaling;
}

const RopeScaling kLlama31 = scaling_of(Kind::kLlama3, 8, 8192);
const RopeScaling kQwenYarn = scaling_of(Kind::kYarn, 4, 32768);

TEST(RopeFrequencies, ArePowersOfTheta) {
  const std::vector<double> frequencies = rope_frequencies(8, 1e4, {});
  ASSERT_EQ(frequencies.size(), 4U);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(frequencies[i], std::pow(10.0, -static_cast<double>(i)), 1e-15);
  EXPECT_TRUE(rope_frequencies(0, 1e4, {}).empty());
}

TEST(RopeFrequencies, LinearDividesAllOfThem) {
  const std::vector<double> plain = rope_frequencies(128, 1e4, {});
  const std::vector<double> scaled = rope_frequencies(128, 1e4, scaling_of(Kind::kLinear, 4));
  for (size_t i = 0; i < 64; ++i) EXPECT_DOUBLE_EQ(scaled[i], plain[i] / 4);
}

TEST(RopeFrequencies, EveryKindAgreesWithItsTwin) {
  RopeScaling untruncated = kQwenYarn;
  untruncated.truncate = false;
  RopeScaling narrow = kQwenYarn;  // the ramp's ends fall together, or behind the last frequency
  narrow.original_positions = 6;
  RopeScaling steep = kQwenYarn;
  steep.beta_fast = 1.001;
  for (const RopeScaling& scaling : {kLlama31, kQwenYarn, untruncated, narrow, steep}) {
    for (const size_t head_dim : {2, 6, 12, 64, 128, 256}) {
      for (const double theta : {1.5, 1e4, 5e5, 1e6}) {
        const std::vector<double> frequencies = rope_frequencies(head_dim, theta, scaling);
        const std::vector<double> expected = reference::rope_frequencies(head_dim, theta, scaling);
        ASSERT_EQ(frequencies.size(), expected.size());
        for (size_t i = 0; i < expected.size(); ++i) {
          EXPECT_NEAR(frequencies[i], expected[i], 1e-13 * expected[i]) << head_dim << " " << theta;
        }
      }
    }
  }
}

/// Llama 3.1's: head_dim 128, theta 500000. Waves shorter than 2048 positions are kept, those
/// longer than 8192 divided by 8.
TEST(RopeFrequencies, Llama3KeepsShortWavesAndDividesLongOnes) {
  const std::vector<double> plain = rope_frequencies(128, 5e5, {});
  const std::vector<double> scaled = rope_frequencies(128, 5e5, kLlama31);
  size_t kept = 0, divided = 0;
  for (size_t i = 0; i < 64; ++i) {
    const double wave = 2 * std::numbers::pi / plain[i];
    const double ratio = plain[i] / scaled[i];
    if (wave < 2048) {
      ++kept;
      EXPECT_DOUBLE_EQ(ratio, 1);
    } else if (wave > 8192) {
      ++divided;
      EXPECT_DOUBLE_EQ(ratio, 8);
    } else {
      EXPECT_GT(ratio, 1);
      EXPECT_LT(ratio, 8);
    }
  }
  EXPECT_EQ(kept, 29U);  // as llama.cpp's converter finds: factors of 1 for indices 0 to 28
  EXPECT_EQ(divided, 64U - 35U);
}

/// Qwen2.5's advice for long texts: theta 1e6, factor 4 of 32768 positions. By hand: 32 turns at
/// index 64 ln(32768 / 64π) / ln(1e6) = 23.6, one turn at 39.65; so the ramp is from 23 to 40.
TEST(RopeFrequencies, YarnKeepsFastOnesAndDividesSlowOnes) {
  const std::vector<double> plain = rope_frequencies(128, 1e6, {});
  const std::vector<double> scaled = rope_frequencies(128, 1e6, kQwenYarn);
  for (size_t i = 0; i < 64; ++i) {
    const double share = std::clamp((static_cast<double>(i) - 23) / 17, 0.0, 1.0);
    EXPECT_NEAR(scaled[i] / plain[i], 1 - share * 0.75, 1e-12) << i;
  }
}

TEST(RopeFrequencies, DividedByDivisorsOfAFile) {
  const std::vector<double> plain = rope_frequencies(4, 100, {});
  RopeScaling scaling = scaling_of(Kind::kDivided, 1);
  scaling.divisors = {1, 8};
  const std::vector<double> scaled = rope_frequencies(4, 100, scaling);
  EXPECT_EQ(scaled[0], plain[0]);
  EXPECT_EQ(scaled[1], plain[1] / 8);
  EXPECT_THROW(rope_frequencies(8, 100, scaling), std::invalid_argument);
}

TEST(RopeFrequencies, YarnSharpensAttention) {
  EXPECT_NEAR(yarn_attention_factor(4), 1.1386294361119891, 1e-15);
  EXPECT_NEAR(yarn_attention_factor(40, 0.707), 1 + 0.0707 * std::log(40.0), 1e-15);
  EXPECT_EQ(yarn_attention_factor(1), 1.0);
  EXPECT_EQ(yarn_attention_factor(0.5), 1.0);
}

}  // namespace
}  // namespace espalier::engine
