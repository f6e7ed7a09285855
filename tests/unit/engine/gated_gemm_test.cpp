// The gated half of an MLP, by every backend.
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "engine/gemm.h"
#include "tests/reference/gate.h"
#include "tests/unit/engine/gemm_backends.h"
#include "tests/unit/engine/gemm_operands.h"

namespace espalier::engine {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// A gate and an up matrix, (intermediate × inputs) each.
struct GatedWeights {
  std::vector<float> gate_values, up_values;
  OwnedTensor gate, up;

  GatedWeights(size_t intermediate, size_t inputs)
      // Small, so that silu() is used on its curved part.
      : gate_values(random_floats(intermediate * inputs, 5, deviation(inputs))),
        up_values(reference::to_bf16(random_floats(intermediate * inputs, 6))),
        gate(DataType::kF32, {intermediate, inputs}, gate_values),
        up(DataType::kBF16, {intermediate, inputs}, up_values) {}

  static float deviation(size_t inputs) { return 2.0f / std::sqrt(static_cast<float>(inputs)); }
};

/// activation(x · gateᵀ + bias) ⊙ (x · upᵀ + bias) of operands rounded to `format`: (rows ×
/// intermediate).
std::vector<float> expected_gated(NumberFormat format, ConstMatView x, const GatedWeights& weights,
                                  const GatedUnit& unit) {
  const size_t intermediate = weights.gate.view.shape[0];
  const auto product = [&](const std::vector<float>& values) {
    return expected_product(format, x, {values.data(), intermediate, x.cols});
  };
  const std::vector<double> gates = product(weights.gate_values);
  const std::vector<double> ups = product(weights.up_values);
  std::vector<float> out;
  for (size_t i = 0; i < gates.size(); ++i) {
    const size_t column = i % intermediate;
    double gate = gates[i], up = ups[i];
    if (!unit.bias.empty()) {
      gate += unit.bias[column];
      up += unit.bias[intermediate + column];
    }
    out.push_back(static_cast<float>(reference::activation(unit.activation, gate) * up));
  }
  return out;
}

/// Every activation, with and without biases.
std::vector<GatedUnit> units(std::span<const float> bias) {
  std::vector<GatedUnit> all;
  for (const ActivationFunction activation :
       {ActivationFunction::kSilu, ActivationFunction::kGelu, ActivationFunction::kGeluTanh}) {
    all.push_back({activation, {}});
    all.push_back({activation, bias});
  }
  return all;
}

class GatedGemmTest : public ::testing::TestWithParam<BackendCase> {
 protected:
  void SetUp() override {
    if (GetParam().isa > GetParam().offered) GTEST_SKIP() << "no " << name_of(GetParam().isa);
    backend = GetParam().make();
  }

  /// Row `row` of `y` against the twin's, and its padding against zeros.
  static void expect_row(ConstActivations y, size_t row, std::span<const float> expected,
                         size_t inputs) {
    const std::vector<float> values = values_of(y, row);
    const double products = 1e-5 * std::sqrt(static_cast<double>(inputs));
    for (size_t i = 0; i < y.cols; ++i) {
      double rounding = 2e-6 * std::abs(expected[i]);
      if (y.format == NumberFormat::kBf16) rounding += std::abs(expected[i]) / 256;
      if (y.format == NumberFormat::kInt8) rounding += 0.501 * y.scales[row];
      ASSERT_NEAR(values[i], expected[i], products + rounding) << "row " << row << ", column " << i;
    }
    const size_t end = activation_stride(y.format, y.cols);
    for (size_t i = y.cols * bytes_of(y.format); i < end; ++i) {
      ASSERT_EQ(y.row(row)[i], std::byte{0}) << "padding byte " << i;
    }
  }

  std::unique_ptr<GemmBackend> backend;
};

INSTANTIATE_TEST_SUITE_P(EveryBackend, GatedGemmTest, ::testing::ValuesIn(every_backend()),
                         [](const auto& test) { return test.param.name; });

TEST_P(GatedGemmTest, GatedProductsOfAnyShapeAgreeWithTheTwin) {
  const NumberFormat format = GetParam().format;
  ThreadPool one(1), three(3);
  for (const size_t inputs : {17, 65, 130}) {
    const std::vector<float> values = random_floats(70 * inputs, 1);
    const ConstMatView rows_of_x(values.data(), 70, inputs);
    const OwnedActivations x(format, rows_of_x);
    for (const size_t intermediate : {1, 3, 15, 16, 17, 31, 33, 50, 150, 300}) {
      SCOPED_TRACE(std::to_string(intermediate) + " x " + std::to_string(inputs));
      const GatedWeights weights(intermediate, inputs);
      const auto packed = backend->pack_gated(three, weights.gate.view, weights.up.view);
      ASSERT_EQ(packed->outputs(), 2 * intermediate);
      const std::vector<float> bias = random_floats(2 * intermediate, 7);
      for (const GatedUnit& unit : units(bias)) {
        const std::vector<float> expected = expected_gated(format, rows_of_x, weights, unit);
        for (const size_t rows : {1, 5, 33, 70}) {
          for (ThreadPool* pool : {&one, &three}) {
            OwnedActivations y(format, rows, intermediate, kActivationAlignment);
            std::vector<float> scratch(backend->gated_scratch(rows, intermediate), kNaN);
            backend->multiply_gated(*pool, x.view.row_range(0, rows), *packed, unit, y.view,
                                    scratch);
            for (size_t row = 0; row < rows; ++row) {
              expect_row(y.view, row, std::span(expected).subspan(row * intermediate, intermediate),
                         inputs);
            }
          }
          ASSERT_FALSE(HasFatalFailure())
              << rows << " rows, " << name_of(unit.activation) << ", bias " << unit.bias.size();
        }
      }
    }
  }
}

TEST_P(GatedGemmTest, AcceptsNoRows) {
  const GatedWeights weights(17, 65);
  ThreadPool pool(2);
  const auto packed = backend->pack_gated(pool, weights.gate.view, weights.up.view);
  const OwnedActivations x(GetParam().format, 0, 65), y(GetParam().format, 0, 17);
  EXPECT_NO_THROW(backend->multiply_gated(pool, x.view, *packed, {}, y.view, {}));
}

TEST_P(GatedGemmTest, ANumberThatIsNotFiniteSpoilsItsRowAlone) {
  std::vector<float> values = random_floats(3 * 65, 1);
  values[65 + 9] = kNaN;
  const GatedWeights weights(17, 65);
  ThreadPool pool(2);
  const auto packed = backend->pack_gated(pool, weights.gate.view, weights.up.view);
  const OwnedActivations x(GetParam().format, ConstMatView(values.data(), 3, 65));
  const OwnedActivations y(GetParam().format, 3, 17);
  std::vector<float> scratch(backend->gated_scratch(3, 17));
  backend->multiply_gated(pool, x.view, *packed, {}, y.view, scratch);
  for (size_t row = 0; row < 3; ++row) {
    for (const float value : values_of(y.view, row)) EXPECT_EQ(std::isnan(value), row == 1);
  }
}

TEST_P(GatedGemmTest, RefusesOperandsThatDoNotFit) {
  const NumberFormat format = GetParam().format;
  const GatedWeights weights(17, 65);
  ThreadPool pool(1);
  const auto packed = backend->pack_gated(pool, weights.gate.view, weights.up.view);
  const OwnedActivations x(format, ConstMatView(weights.up_values.data(), 3, 65));
  const OwnedActivations y(format, 3, 17), wide(format, 3, 18), short_by_one(format, 2, 17);
  std::vector<float> scratch(backend->gated_scratch(3, 17));
  GatedUnit unit;
  const auto multiply = [&](Activations out, std::span<float> memory) {
    backend->multiply_gated(pool, x.view, *packed, unit, out, memory);
  };
  EXPECT_NO_THROW(multiply(y.view, scratch));
  EXPECT_THROW(multiply(wide.view, scratch), std::invalid_argument);
  EXPECT_THROW(multiply(short_by_one.view, scratch), std::invalid_argument);
  if (!scratch.empty()) {
    EXPECT_THROW(multiply(y.view, std::span(scratch).first(scratch.size() - 1)),
                 std::invalid_argument);
  }
  const std::vector<float> bias(33);
  unit.bias = bias;
  EXPECT_THROW(multiply(y.view, scratch), std::invalid_argument);
}

}  // namespace
}  // namespace espalier::engine
