// Rows written in each number format: bf16's rounding, dynamic quantisation, padding.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "engine/bf16.h"
#include "engine/row_kernels.h"
#include "engine/row_loops.h"
#include "tests/reference/rms_norm.h"
#include "tests/unit/engine/gemm_operands.h"

namespace espalier::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kLargest = std::numeric_limits<float>::max();
constexpr size_t kLengths[] = {1, 2, 3, 15, 16, 17, 31, 33, 63, 64, 65, 127, 1000, 3072};

float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

/// Every 16 bits that a bf16 can be, with lower halves at, around and between ties.
std::vector<float> floats_around_every_bf16() {
  std::vector<float> out;
  for (uint32_t upper = 0; upper <= 0xffff; ++upper) {
    for (const uint32_t lower : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu, 0x1234u}) {
      out.push_back(float_of(upper << 16 | lower));
    }
  }
  return out;
}

void expect_bf16(float x, uint16_t rounded) {
  if (std::isnan(x)) {
    EXPECT_TRUE(std::isnan(f32_from_bf16(rounded))) << std::hex << bits_of(x);
  } else {
    ASSERT_EQ(bits_of(f32_from_bf16(rounded)), bits_of(reference::to_bf16(x)))
        << std::hex << bits_of(x);
  }
}

TEST(Bf16, RoundsEveryKindOfFloatAsItsTwin) {
  for (const float x : floats_around_every_bf16()) {
    expect_bf16(x, bf16_from_f32(x));
    ASSERT_FALSE(::testing::Test::HasFatalFailure());
  }
}

TEST(Bf16, RoundsTiesToEvenAndOverflowToInfinity) {
  EXPECT_EQ(bf16_from_f32(float_of(0x3f808000)), 0x3f80);  // a tie, even below
  EXPECT_EQ(bf16_from_f32(float_of(0x3f818000)), 0x3f82);  // a tie, even above
  EXPECT_EQ(bf16_from_f32(float_of(0x3f808001)), 0x3f81);
  EXPECT_EQ(bf16_from_f32(float_of(0x7f7f7fff)), 0x7f7f);  // the largest finite bf16
  EXPECT_EQ(bf16_from_f32(kLargest), 0x7f80);
  EXPECT_EQ(bf16_from_f32(-kLargest), 0xff80);
  EXPECT_EQ(bf16_from_f32(kInfinity), 0x7f80);
  EXPECT_EQ(bf16_from_f32(float_of(0x00008000)), 0x0000);  // subnormals round like others
  EXPECT_EQ(bf16_from_f32(float_of(0x00018000)), 0x0002);
  EXPECT_EQ(bf16_from_f32(-0.0f), 0x8000);
  EXPECT_TRUE(std::isnan(f32_from_bf16(bf16_from_f32(float_of(0x7f800001)))));
  EXPECT_TRUE(std::isnan(f32_from_bf16(bf16_from_f32(float_of(0xffffffff)))));
}

/// Every version of the loops that this CPU can run.
class RowFormatsTest : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (GetParam() > detected_isa()) GTEST_SKIP() << "this CPU lacks " << name_of(GetParam());
  }
  const RowLoops& loops() const { return row_loops_for(GetParam()); }

  /// Bytes and scale against the exact values: half a step, and a little for f32's rounding.
  static void expect_int8(std::span<const double> values, std::span<const uint8_t> bytes,
                          float scale) {
    double largest = 0;
    for (const double value : values) largest = std::max(largest, std::abs(value));
    EXPECT_NEAR(scale, largest / 127, 1e-6 * largest + 1e-44);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_GE(bytes[i], 1);
      const double value = double{scale} * (bytes[i] - kInt8ZeroPoint);
      ASSERT_NEAR(value, values[i], 0.5001 * scale + 1e-35) << i;
    }
  }

  void expect_quantised(const std::vector<float>& x) const {
    std::vector<uint8_t> bytes(x.size());
    const float scale = loops().to_int8(x.data(), x.size(), bytes.data());
    expect_int8(std::vector<double>(x.begin(), x.end()), bytes, scale);
  }
};

INSTANTIATE_TEST_SUITE_P(EveryIsa, RowFormatsTest,
                         ::testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST_P(RowFormatsTest, Bf16RowsAreRoundedAsTheTwinRounds) {
  const std::vector<float> x = floats_around_every_bf16();
  std::vector<uint16_t> out(x.size());
  loops().to_bf16(x.data(), x.size(), out.data());
  for (size_t i = 0; i < x.size(); ++i) {
    expect_bf16(x[i], out[i]);
    ASSERT_FALSE(HasFatalFailure());
  }
}

TEST_P(RowFormatsTest, RmsNormToBf16AgreesWithItsTwin) {
  for (const size_t n : kLengths) {
    const std::vector<float> x = random_floats(n, 1);
    const std::vector<float> weight = random_floats(n, 2);
    std::vector<uint16_t> out(n);
    loops().rms_norm_bf16(x.data(), weight.data(), 1e-6f, n, out.data());
    const std::vector<float> expected = reference::rms_norm(x, weight, 1e-6f);
    for (size_t i = 0; i < n; ++i) {
      // Half a step of 2^-8, and what f32 lost before.
      EXPECT_NEAR(f32_from_bf16(out[i]), expected[i], std::abs(expected[i]) * (1.0 / 256 + 1e-6));
    }
  }
}

TEST_P(RowFormatsTest, RmsNormToInt8AgreesWithItsTwin) {
  for (const size_t n : kLengths) {
    const std::vector<float> x = random_floats(n, 1);
    const std::vector<float> weight = random_floats(n, 2);
    std::vector<uint8_t> bytes(n);
    const float scale = loops().rms_norm_int8(x.data(), weight.data(), 1e-6f, n, bytes.data());
    const std::vector<float> expected = reference::rms_norm(x, weight, 1e-6f);
    expect_int8(std::vector<double>(expected.begin(), expected.end()), bytes, scale);
  }
}

TEST_P(RowFormatsTest, QuantisedRowsOfAnyLengthAreHalfAStepAway) {
  for (const size_t n : kLengths) {
    expect_quantised(random_floats(n, 3));
    std::vector<float> outlier = random_floats(n, 4);
    outlier[n / 2] = -1000.0f;
    expect_quantised(outlier);
  }
}

TEST_P(RowFormatsTest, QuantisedRowsMayBeOfAnyMagnitude) {
  for (const float magnitude :
       {1e-45f, 1e-38f, 1e-36f, 9e-36f, 1.1e-35f, 1e-30f, 1e-6f, 1e6f, 1e30f, 1e38f}) {
    std::vector<float> x = random_floats(65, 5);
    for (float& value : x) value *= magnitude;
    expect_quantised(x);
  }
  expect_quantised({kLargest, -kLargest, 0.0f, kLargest / 2});
  expect_quantised({-kLargest});
}

TEST_P(RowFormatsTest, ARowOfZerosIsQuantisedToZeros) {
  const std::vector<float> zeros(65, -0.0f);
  std::vector<uint8_t> bytes(65);
  EXPECT_EQ(loops().to_int8(zeros.data(), 65, bytes.data()), 0.0f);
  EXPECT_EQ(bytes, std::vector<uint8_t>(65, kInt8ZeroPoint));
}

TEST_P(RowFormatsTest, ARowThatIsNotFiniteHasNoScale) {
  for (const float spoiler : {kInfinity, -kInfinity, kNaN, -kNaN}) {
    for (const size_t at : {0, 16, 64}) {
      std::vector<float> x = random_floats(65, 6);
      x[at] = spoiler;
      std::vector<uint8_t> bytes(65);
      EXPECT_TRUE(std::isnan(loops().to_int8(x.data(), 65, bytes.data())));
      EXPECT_EQ(bytes, std::vector<uint8_t>(65, kInt8ZeroPoint));
      const std::vector<float> weight(65, 1.0f);
      EXPECT_TRUE(
          std::isnan(loops().rms_norm_int8(x.data(), weight.data(), 1e-6f, 65, bytes.data())));
      std::vector<uint16_t> bf16(65);
      loops().to_bf16(x.data(), 65, bf16.data());
      EXPECT_TRUE(std::isnan(loops().bf16_to_int8(bf16.data(), 65, bytes.data())));
    }
  }
}

TEST_P(RowFormatsTest, Bf16RowsAreQuantisedLikeTheSameFloats) {
  for (const size_t n : kLengths) {
    const std::vector<float> x = reference::to_bf16(random_floats(n, 7));
    std::vector<uint16_t> bf16(n);
    loops().to_bf16(x.data(), n, bf16.data());
    std::vector<uint8_t> bytes(n), expected(n);
    const float scale = loops().bf16_to_int8(bf16.data(), n, bytes.data());
    EXPECT_EQ(scale, loops().to_int8(x.data(), n, expected.data()));
    EXPECT_EQ(bytes, expected);
  }
}

TEST_P(RowFormatsTest, SumsOfBytesBecomeValues) {
  for (const size_t n : kLengths) {
    const std::vector<float> weight_scales = random_floats(n, 8);
    std::vector<int32_t> sums(n), zero_sums(n);
    for (size_t i = 0; i < n; ++i) {
      sums[i] = static_cast<int32_t>(i * 7919) - 50000;
      zero_sums[i] = 128 * static_cast<int32_t>(i * 31 % 1000) - 40000;
    }
    std::vector<float> out(n);
    loops().dequantise(sums.data(), zero_sums.data(), weight_scales.data(), 0.25f, n, out.data());
    for (size_t i = 0; i < n; ++i) {
      const double expected = 0.25 * (sums[i] - zero_sums[i]) * weight_scales[i];
      EXPECT_NEAR(out[i], expected, 2e-7 * std::abs(expected)) << i;
    }
  }
}

constexpr NumberFormat kFormats[] = {NumberFormat::kF32, NumberFormat::kBf16, NumberFormat::kInt8};

/// Row 1 of `out` against `values`; the rows around it and the gap behind it must be as they were.
void expect_only_row_1(const OwnedActivations& out, std::span<const float> values) {
  const Activations view = out.view;
  const std::vector<float> written = values_of(view, 1);
  for (size_t i = 0; i < view.cols; ++i) {
    double tolerance = 1e-6 * std::abs(values[i]);
    if (view.format == NumberFormat::kBf16) tolerance += std::abs(values[i]) / 256;
    if (view.format == NumberFormat::kInt8) tolerance += 0.5001 * view.scales[1];
    ASSERT_NEAR(written[i], values[i], tolerance) << name_of(view.format) << " " << i;
  }
  const size_t used = view.cols * bytes_of(view.format);
  const size_t padded = activation_stride(view.format, view.cols);
  for (size_t i = 0; i < view.stride; ++i) {
    EXPECT_EQ(view.row(0)[i], std::byte{0xff});
    EXPECT_EQ(view.row(2)[i], std::byte{0xff});
    if (i >= used) {
      EXPECT_EQ(view.row(1)[i], i < padded ? std::byte{0} : std::byte{0xff}) << i;
    }
  }
}

TEST(RowFormats, RmsNormWritesEveryFormatWithZerosAsPadding) {
  for (const NumberFormat format : kFormats) {
    for (const size_t n : {1, 16, 33, 64, 130}) {
      const std::vector<float> x = random_floats(n, 1);
      const std::vector<float> weight = random_floats(n, 2);
      const OwnedActivations out(format, 3, n, kActivationAlignment);
      rms_norm(x, weight, 1e-6f, out.view, 1);
      expect_only_row_1(out, reference::rms_norm(x, weight, 1e-6f));
    }
  }
}

TEST(RowFormats, FloatsAreWrittenInEveryFormatWithZerosAsPadding) {
  for (const NumberFormat format : kFormats) {
    for (const size_t n : {1, 16, 33, 64, 130}) {
      const std::vector<float> x = random_floats(n, 1);
      const OwnedActivations out(format, 3, n, kActivationAlignment);
      write_row(x, out.view, 1);
      expect_only_row_1(out, x);
    }
  }
}

TEST(RowFormats, RowsAreCopiedAndNarrowed) {
  for (const NumberFormat from : kFormats) {
    for (const NumberFormat to : kFormats) {
      const std::vector<float> x = random_floats(2 * 33, 1);
      const OwnedActivations source(from, ConstMatView(x.data(), 2, 33));
      const OwnedActivations out(to, 3, 33, kActivationAlignment);
      if (from > to) {  // formats are ordered by width
        EXPECT_THROW(write_row(source.view, 1, out.view, 1), std::invalid_argument);
        continue;
      }
      write_row(source.view, 1, out.view, 1);
      const std::vector<float> values = values_of(source.view, 1);
      if (from == to) {
        EXPECT_EQ(values_of(out.view, 1), values) << name_of(from);
      }
      expect_only_row_1(out, values);
    }
  }
}

TEST(RowFormats, PaddingIsZeroedUpToTheNextAlignedByte) {
  for (const NumberFormat format : kFormats) {
    const OwnedActivations out(format, 3, 33, kActivationAlignment);
    write_row(std::vector<float>(33, 0.5f), out.view, 1);
    const std::vector<float> before = values_of(out.view, 1);
    std::memset(out.view.row(1) + 33 * bytes_of(format), 0xff,
                out.view.stride - 33 * bytes_of(format));
    zero_padding(out.view, 1);
    expect_only_row_1(out, before);
  }
}

TEST(RowFormats, RefuseLengthsThatDisagree) {
  const OwnedActivations out(NumberFormat::kInt8, 1, 4), wide(NumberFormat::kBf16, 1, 5);
  std::vector<float> four(4), five(5);
  EXPECT_THROW(rms_norm(five, five, 1e-6f, out.view, 0), std::invalid_argument);
  EXPECT_THROW(rms_norm(four, five, 1e-6f, out.view, 0), std::invalid_argument);
  EXPECT_THROW(write_row(five, out.view, 0), std::invalid_argument);
  EXPECT_THROW(write_row(wide.view, 0, out.view, 0), std::invalid_argument);
}

}  // namespace
}  // namespace espalier::engine
