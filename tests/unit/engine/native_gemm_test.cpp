// What native backends promise beyond near answers: bits.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "engine/gemm.h"
#include "tests/unit/engine/gemm_backends.h"
#include "tests/unit/engine/gemm_operands.h"

namespace espalier::engine {
namespace {

constexpr size_t kInputs = 147, kOutputs = 117, kMostRows = 70;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

/// Rows of x, weights, and the answer when every row is multiplied alone.
class NativeGemmTest : public ::testing::TestWithParam<BackendCase> {
 protected:
  void SetUp() override {
    if (GetParam().isa > GetParam().offered) GTEST_SKIP() << "no " << name_of(GetParam().isa);
    backend = GetParam().make();
    packed = backend->pack(pools[0], weights.views);
    for (size_t row = 0; row < kMostRows; ++row) {
      backend->multiply(pools[0], x().row_range(row, 1), *packed, 0,
                        MutMatView(alone.data(), kMostRows, kOutputs).row_range(row, 1),
                        Into::kStore);
    }
  }

  ConstActivations x() const { return activations.view; }
  std::span<const float> row_alone(size_t row) const {
    return std::span(alone).subspan(row * kOutputs, kOutputs);
  }

  const std::vector<float> values = random_floats(kMostRows * kInputs, 1);
  const OwnedActivations activations{GetParam().format,
                                     ConstMatView(values.data(), kMostRows, kInputs)};
  const StackedWeights weights{kOutputs, kInputs, 2};
  ThreadPool pools[3] = {ThreadPool(1), ThreadPool(2), ThreadPool(3)};
  std::unique_ptr<GemmBackend> backend;
  std::unique_ptr<PackedMatrix> packed;
  std::vector<float> alone = std::vector<float>(kMostRows * kOutputs, kNaN);
};

INSTANTIATE_TEST_SUITE_P(EveryIsa, NativeGemmTest, ::testing::ValuesIn(native_backends()),
                         [](const auto& test) { return test.param.name; });

TEST_P(NativeGemmTest, ARowsBitsDoNotDependOnItsNeighboursOrThreads) {
  for (size_t rows = 1; rows <= kMostRows; ++rows) {
    // At the beginning, in the middle and at the end.
    for (const size_t first : {size_t{0}, (kMostRows - rows) / 2, kMostRows - rows}) {
      for (ThreadPool& pool : pools) {
        std::vector<float> y(rows * kOutputs, kNaN);
        backend->multiply(pool, x().row_range(first, rows), *packed, 0, {y.data(), rows, kOutputs},
                          Into::kStore);
        ASSERT_TRUE(same_bits(y, std::span(alone).subspan(first * kOutputs, y.size())))
            << rows << " rows from " << first << ", " << pool.size() << " threads";
      }
    }
  }
}

TEST_P(NativeGemmTest, ARowsBitsDoNotDependOnTheRowBlockThatItFallsInto) {
  // A thousand times the same rows: several blocks of rows.
  constexpr size_t kManyRows = 3000, kPeriod = 7;
  std::vector<float> repeated;
  for (size_t row = 0; row < kManyRows; ++row) {
    const float* const from = values.data() + row % kPeriod * kInputs;
    repeated.insert(repeated.end(), from, from + kInputs);
  }
  const OwnedActivations many(GetParam().format, ConstMatView(repeated.data(), kManyRows, kInputs));
  for (ThreadPool& pool : pools) {
    std::vector<float> y(kManyRows * kOutputs, kNaN);
    const MutMatView out(y.data(), kManyRows, kOutputs);
    backend->multiply(pool, many.view, *packed, 0, out, Into::kStore);
    for (size_t row = 0; row < kManyRows; ++row) {
      ASSERT_TRUE(same_bits(out.row(row), row_alone(row % kPeriod))) << row;
    }
  }
}

TEST_P(NativeGemmTest, ARowsBitsDoNotDependOnTheRangeOfOutputs) {
  for (size_t first = 0; first < kOutputs; first += 5) {
    for (size_t count = 1; count <= kOutputs - first; count += 9) {
      for (ThreadPool& pool : pools) {
        std::vector<float> y(13 * count, kNaN);
        const MutMatView out(y.data(), 13, count);
        backend->multiply(pool, x().row_range(0, 13), *packed, first, out, Into::kStore);
        for (size_t row = 0; row < 13; ++row) {
          ASSERT_TRUE(same_bits(out.row(row), row_alone(row).subspan(first, count)))
              << count << " outputs from " << first << ", " << pool.size() << " threads";
        }
      }
    }
  }
}

TEST_P(NativeGemmTest, AddingIsStoringAndThenAdding) {
  for (const size_t first : {0, 1, 40}) {
    const size_t count = kOutputs - first;
    std::vector<float> y = random_floats(kMostRows * count, 4);
    std::vector<float> expected = y;
    for (size_t i = 0; i < y.size(); ++i) expected[i] += row_alone(i / count)[first + i % count];
    backend->multiply(pools[2], x(), *packed, first, {y.data(), kMostRows, count}, Into::kAdd);
    EXPECT_TRUE(same_bits(y, expected)) << first;
  }
}

TEST_P(NativeGemmTest, AGatedRowsBitsDoNotDependOnItsNeighboursOrThreads) {
  constexpr size_t kIntermediate = 53;
  const NumberFormat format = GetParam().format;
  const OwnedTensor gate(DataType::kF32, {kIntermediate, kInputs},
                         random_floats(kIntermediate * kInputs, 5, 0.1f));
  const OwnedTensor up(DataType::kF32, {kIntermediate, kInputs},
                       random_floats(kIntermediate * kInputs, 6));
  const auto gated = backend->pack_gated(pools[0], gate.view, up.view);
  const std::vector<float> bias = random_floats(2 * kIntermediate, 7);
  GatedUnit unit;
  const auto multiply = [&](ThreadPool& pool, size_t first, Activations y) {
    std::vector<float> scratch(backend->gated_scratch(y.rows, kIntermediate), kNaN);
    backend->multiply_gated(pool, x().row_range(first, y.rows), *gated, unit, y, scratch);
  };
  for (const ActivationFunction activation :
       {ActivationFunction::kSilu, ActivationFunction::kGelu, ActivationFunction::kGeluTanh}) {
    unit = {activation, activation == ActivationFunction::kSilu ? std::span<const float>() : bias};
    const OwnedActivations rows_alone(format, kMostRows, kIntermediate);
    for (size_t row = 0; row < kMostRows; ++row) {
      multiply(pools[0], row, rows_alone.view.row_range(row, 1));
    }
    for (size_t rows = 1; rows <= kMostRows; ++rows) {
      const size_t first = (kMostRows - rows) / 2;
      for (ThreadPool& pool : pools) {
        const OwnedActivations y(format, rows, kIntermediate);
        multiply(pool, first, y.view);
        ASSERT_EQ(std::memcmp(y.view.data, rows_alone.view.row(first), rows * y.view.stride), 0);
        if (format == NumberFormat::kInt8) {
          ASSERT_TRUE(same_bits(y.scales, std::span(rows_alone.scales).subspan(first, rows)));
        }
      }
    }
  }
}

TEST(NativeGemm, Int8BitsAreTheSameOnEveryInstructionSet) {
  const std::vector<float> values = random_floats(kMostRows * kInputs, 1);
  const OwnedActivations x(NumberFormat::kInt8, ConstMatView(values.data(), kMostRows, kInputs));
  const StackedWeights weights(kOutputs, kInputs, 2);
  ThreadPool pool(2);
  std::vector<float> scalar;
  for (const Isa isa : kEveryIsa) {
    if (isa > detected_isa()) break;
    const auto backend = make_native_gemm(NumberFormat::kInt8, isa);
    const auto packed = backend->pack(pool, weights.views);
    std::vector<float> y(kMostRows * kOutputs, kNaN);
    backend->multiply(pool, x.view, *packed, 0, {y.data(), kMostRows, kOutputs}, Into::kStore);
    if (isa == Isa::kScalar) scalar = y;
    EXPECT_TRUE(same_bits(y, scalar)) << name_of(isa);
  }
}

TEST(NativeGemm, TheLargestInt8ProductsDoNotSaturate) {
  // 255 · 127, thousands of times: instructions that add pairs in 16 bits give another answer.
  constexpr size_t kMany = 3072;
  const std::vector<float> ones(kMany, 1.0f), minus_ones(kMany, -1.0f);
  const OwnedActivations x(NumberFormat::kInt8, ConstMatView(ones.data(), 1, kMany));
  const OwnedTensor up(DataType::kF32, {1, kMany}, ones);
  const OwnedTensor down(DataType::kF32, {1, kMany}, minus_ones);
  const TensorView stacked[] = {up.view, down.view};
  ThreadPool pool(1);
  for (const Isa isa : kEveryIsa) {
    if (isa > detected_isa()) break;
    const auto backend = make_native_gemm(NumberFormat::kInt8, isa);
    std::vector<float> y(2);
    backend->multiply(pool, x.view, *backend->pack(pool, stacked), 0, {y.data(), 1, 2},
                      Into::kStore);
    EXPECT_NEAR(y[0], kMany, 1e-3) << name_of(isa);
    EXPECT_NEAR(y[1], -static_cast<double>(kMany), 1e-3) << name_of(isa);
  }
}

/// int8 products with weights that are hard to scale, each (1 × 65), with x all ones.
float product_with(const std::vector<float>& weights) {
  const std::vector<float> ones(weights.size(), 1.0f);
  const OwnedActivations x(NumberFormat::kInt8, ConstMatView(ones.data(), 1, ones.size()));
  const OwnedTensor tensor(DataType::kF32, {1, weights.size()}, weights);
  const auto backend = make_native_gemm(NumberFormat::kInt8, Isa::kScalar);
  ThreadPool pool(1);
  float y = kNaN;
  backend->multiply(pool, x.view, *backend->pack(pool, std::span(&tensor.view, 1)), 0, {&y, 1, 1},
                    Into::kStore);
  return y;
}

TEST(NativeGemm, Int8RefusesMoreInputsThanItsSumsHold) {
  ThreadPool pool(1);
  const size_t inputs = size_t{INT32_MAX} / (255 * 127) + 1;
  const std::vector<float> weights(inputs, 1.0f);
  const TensorView tensor{DataType::kF32, {1, inputs}, std::as_bytes(std::span(weights))};
  EXPECT_THROW(
      (void)make_native_gemm(NumberFormat::kInt8, usable_isa())->pack(pool, std::span(&tensor, 1)),
      std::runtime_error);
  EXPECT_NO_THROW(
      (void)make_native_gemm(NumberFormat::kBf16, usable_isa())->pack(pool, std::span(&tensor, 1)));
}

TEST(NativeGemm, Int8WeightsMayBeOfAnyMagnitude) {
  EXPECT_EQ(product_with(std::vector<float>(65, 0.0f)), 0.0f);
  EXPECT_NEAR(product_with(std::vector<float>(65, 1e-38f)), 65e-38, 66e-38);  // 0 will do
  EXPECT_NEAR(product_with(std::vector<float>(65, 1e-30f)), 65e-30, 1e-34);
  EXPECT_NEAR(product_with(std::vector<float>(65, 1e30f)), 65e30, 1e26);
}

TEST(NativeGemm, Int8WeightsThatAreNotFiniteSpoilTheirOutput) {
  std::vector<float> weights = random_floats(65, 1);
  weights[40] = kNaN;
  EXPECT_TRUE(std::isnan(product_with(weights)));
  weights[40] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isnan(product_with(weights)));
}

}  // namespace
}  // namespace espalier::engine
