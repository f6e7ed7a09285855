#include "engine/row_kernels.h"
#include "engine/rope_frequencies.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "engine/fast_exp.h"
#include "engine/row_loops.h"
#include "tests/reference/gate.h"
#include "tests/reference/rms_norm.h"
#include "tests/reference/rope.h"
#include "tests/unit/engine/random_matrix.h"

namespace espalier::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr size_t kLengths[] = {1, 2, 3, 7, 15, 16, 17, 63, 64, 65, 127, 128, 1000, 3072};

/// Every version of the loops that this CPU can run.
class RowLoopsTest : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (GetParam() > detected_isa()) GTEST_SKIP() << "this CPU lacks " << name_of(GetParam());
  }
  const RowLoops& loops() const { return row_loops_for(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(EveryIsa, RowLoopsTest,
                         ::testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST_P(RowLoopsTest, RmsNormAgreesWithItsTwin) {
  for (const size_t n : kLengths) {
    const std::vector<float> x = random_floats(n, 1);
    const std::vector<float> weight = random_floats(n, 2);
    std::vector<float> out(n);
    loops().rms_norm(x.data(), weight.data(), 1e-6f, n, out.data());
    const std::vector<float> expected = reference::rms_norm(x, weight, 1e-6f);
    for (size_t i = 0; i < n; ++i) {
      EXPECT_NEAR(out[i], expected[i], 1e-6 * std::abs(expected[i]) + 1e-9) << n << " " << i;
    }
    // In place, the same bits.
    std::vector<float> in_place = x;
    loops().rms_norm(in_place.data(), weight.data(), 1e-6f, n, in_place.data());
    EXPECT_EQ(in_place, out);
  }
}

TEST_P(RowLoopsTest, RmsNormOfZerosIsZero) {
  std::vector<float> x(65, 0.0f);
  const std::vector<float> weight(65, 3.0f);
  loops().rms_norm(x.data(), weight.data(), 1e-6f, x.size(), x.data());
  EXPECT_EQ(x, std::vector<float>(65, 0.0f));
}

TEST_P(RowLoopsTest, AddAdds) {
  for (const size_t n : kLengths) {
    std::vector<float> x = random_floats(n, 3);
    const std::vector<float> before = x;
    const std::vector<float> y = random_floats(n, 4);
    loops().add(x.data(), y.data(), n);
    for (size_t i = 0; i < n; ++i) EXPECT_EQ(x[i], before[i] + y[i]);
  }
}

constexpr ActivationFunction kActivations[] = {ActivationFunction::kSilu, ActivationFunction::kGelu,
                                               ActivationFunction::kGeluTanh};

auto gate_loop(const RowLoops& loops, ActivationFunction activation) {
  return activation == ActivationFunction::kSilu   ? loops.swiglu
         : activation == ActivationFunction::kGelu ? loops.geglu
                                                   : loops.geglu_tanh;
}

/// Of activation(gate) · up: SiLU's error is relative, GELU's is that of a distribution's tail.
double gate_tolerance(ActivationFunction activation, float gate, float up, float expected) {
  const double tail = activation == ActivationFunction::kSilu ? 0 : 2e-7 * std::abs(gate * up);
  return 1e-6 * std::abs(expected) + tail + 1e-30;
}

TEST_P(RowLoopsTest, GatesAgreeWithTheirTwins) {
  for (const ActivationFunction activation : kActivations) {
    for (const size_t n : kLengths) {
      const std::vector<float> gate_up = random_floats(2 * n, 5, 5.0f);
      std::vector<float> out(n);
      gate_loop(loops(), activation)(gate_up.data(), gate_up.data() + n, n, out.data());
      const std::vector<float> expected = reference::gate(activation, gate_up);
      for (size_t i = 0; i < n; ++i) {
        EXPECT_NEAR(out[i], expected[i],
                    gate_tolerance(activation, gate_up[i], gate_up[n + i], expected[i]))
            << name_of(activation) << " of " << gate_up[i];
      }
    }
  }
}

TEST_P(RowLoopsTest, GatesStayFiniteForExtremeValues) {
  const std::vector<float> gate_up = {-1e4f, -104.f, -88.8f, -88.0f, 0.0f, 88.0f, 1e4f, 3e38f,
                                      1.0f,  1.0f,   1.0f,   1.0f,   1.0f, 1.0f,  1.0f, 1.0f};
  for (const ActivationFunction activation : kActivations) {
    std::vector<float> out(8);
    gate_loop(loops(), activation)(gate_up.data(), gate_up.data() + 8, 8, out.data());
    const std::vector<float> expected = reference::gate(activation, gate_up);
    for (size_t i = 0; i < out.size(); ++i) {
      EXPECT_NEAR(out[i], expected[i], 1e-6 * std::abs(expected[i]) + 1e-30)
          << name_of(activation) << " of " << gate_up[i];
    }
  }
}

TEST_P(RowLoopsTest, RopeAgreesWithItsTwin) {
  for (const size_t head_dim : {2, 6, 16, 34, 64, 128}) {
    const RopeTable table(rope_frequencies(head_dim, 1e6, {}), 1, 1001);
    for (const size_t position : {0, 1, 17, 1000}) {
      std::vector<float> head = random_floats(head_dim, 6);
      const std::vector<float> expected = reference::rope(head, position, 1e6);
      loops().rope(head.data(), table.cos(position).data(), table.sin(position).data(),
                   head_dim / 2);
      for (size_t i = 0; i < head_dim; ++i) EXPECT_NEAR(head[i], expected[i], 1e-6);
    }
  }
}

TEST(FastExp, AgreesWithExpOverItsWholeRange) {
  double worst = 0;
  // 97 is coprime to powers of two: mantissas of all kinds.
  for (uint64_t bits = 0; bits <= 0xffffffffu; bits += 97 * 16) {
    float x;
    const auto pattern = static_cast<uint32_t>(bits);
    std::memcpy(&x, &pattern, sizeof(x));
    if (!(x > -87.3365f && x < 88.7228f)) continue;
    const double expected = std::exp(double{x});
    worst = std::max(worst, std::abs(fast_exp(x) - expected) / expected);
  }
  EXPECT_LT(worst, 1.2e-7);
}

TEST(FastExp, KeepsItsPromisesAtTheEnds) {
  EXPECT_EQ(fast_exp(0.0f), 1.0f);
  EXPECT_EQ(fast_exp(-0.0f), 1.0f);
  EXPECT_EQ(fast_exp(-87.34f), 0.0f);
  EXPECT_EQ(fast_exp(-1e30f), 0.0f);
  EXPECT_EQ(fast_exp(-kInfinity), 0.0f);
  EXPECT_EQ(fast_exp(88.73f), kInfinity);
  EXPECT_EQ(fast_exp(1e30f), kInfinity);
  EXPECT_EQ(fast_exp(kInfinity), kInfinity);
  EXPECT_TRUE(std::isfinite(fast_exp(88.72f)));
  EXPECT_GE(fast_exp(-87.33f), std::numeric_limits<float>::min());
  EXPECT_TRUE(std::isnan(fast_exp(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(fast_exp(-std::numeric_limits<float>::quiet_NaN())));
}

TEST(RowKernels, UseTheLoopsOfTheUsableIsa) {
  const std::vector<float> x = random_floats(65, 11);
  const std::vector<float> weight = random_floats(65, 12);
  std::vector<float> out(65), expected(65);
  rms_norm(x, weight, 1e-6f, out);
  row_loops_for(usable_isa()).rms_norm(x.data(), weight.data(), 1e-6f, 65, expected.data());
  EXPECT_EQ(out, expected);
}

TEST(RowKernels, AcceptEmptyRows) {
  std::vector<float> none;
  rms_norm(none, none, 1e-6f, none);
  add(none, none);
  for (const ActivationFunction activation : kActivations) gate(activation, none, none);
  apply_rope(none, none, none);
  EXPECT_TRUE(none.empty());
}

TEST(RowKernels, RefuseLengthsThatDisagree) {
  std::vector<float> four(4), five(5);
  EXPECT_THROW(rms_norm(four, five, 1e-6f, four), std::invalid_argument);
  EXPECT_THROW(rms_norm(four, four, 1e-6f, five), std::invalid_argument);
  EXPECT_THROW(add(four, five), std::invalid_argument);
  EXPECT_THROW(gate(ActivationFunction::kSilu, four, four), std::invalid_argument);
  EXPECT_THROW(apply_rope(four, four, four), std::invalid_argument);
}

TEST(RopeTable, HoldsTheAnglesOfFarPositions) {
  const RopeTable table(rope_frequencies(128, 1e6, {}), 1, 32768);
  for (const size_t i : {0, 1, 63}) {
    const double angle = 32767.0 * std::pow(1e6, -2.0 * static_cast<double>(i) / 128.0);
    EXPECT_NEAR(table.cos(32767)[i], std::cos(angle), 1e-7);
    EXPECT_NEAR(table.sin(32767)[i], std::sin(angle), 1e-7);
  }
}

}  // namespace
}  // namespace espalier::engine
