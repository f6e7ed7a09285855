// What holds for the products of every backend.
#include "engine/gemm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <thread>

#include "engine/sgemm.h"
#include "tests/unit/engine/gemm_backends.h"
#include "tests/unit/engine/gemm_operands.h"

namespace espalier::engine {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// Every backend that this CPU can run.
class GemmTest : public ::testing::TestWithParam<BackendCase> {
 protected:
  void SetUp() override {
    if (GetParam().isa > GetParam().offered) GTEST_SKIP() << "no " << name_of(GetParam().isa);
    backend = GetParam().make();
  }

  /// `y` against rows and columns of `expected`, (… × stride).
  void expect_near(ConstMatView y, const double* expected, size_t stride, size_t inputs,
                   const std::vector<float>& added = {}) const {
    for (size_t r = 0; r < y.rows; ++r) {
      for (size_t c = 0; c < y.cols; ++c) {
        const double product = expected[r * stride + c];
        const double before = added.empty() ? 0 : added[r * y.cols + c];
        const double tolerance = product_tolerance(GetParam().format, inputs, product) +
                                 (added.empty() ? 0 : 2e-7 * (std::abs(before + product)));
        ASSERT_NEAR(y.row(r)[c], before + product, tolerance) << "row " << r << ", column " << c;
      }
    }
  }

  std::unique_ptr<GemmBackend> backend;
};

INSTANTIATE_TEST_SUITE_P(EveryBackend, GemmTest, ::testing::ValuesIn(every_backend()),
                         [](const auto& test) { return test.param.name; });

constexpr size_t kRows[] = {1, 2, 3, 5, 6, 7, 12, 13, 25, 31, 33, 64, 65, 127, 130};

TEST_P(GemmTest, ProductsOfAnyShapeAgreeWithTheTwin) {
  ThreadPool one(1), three(3);
  for (const size_t inputs : {1, 3, 17, 63, 65, 127, 400}) {
    const std::vector<float> values = random_floats(130 * inputs, 1);
    const ConstMatView rows_of_x(values.data(), 130, inputs);
    const OwnedActivations x(GetParam().format, rows_of_x);
    for (const size_t outputs : {1, 3, 31, 33, 65, 147, 500}) {
      SCOPED_TRACE(std::to_string(outputs) + " x " + std::to_string(inputs));
      const StackedWeights weights(outputs, inputs, 2);
      const std::vector<double> expected =
          expected_product(GetParam().format, rows_of_x, weights.view());
      const auto packed = backend->pack(three, weights.views);
      ASSERT_EQ(packed->outputs(), outputs);
      ASSERT_EQ(packed->inputs(), inputs);
      for (const size_t rows : kRows) {
        for (ThreadPool* pool : {&one, &three}) {
          std::vector<float> y(rows * outputs, kNaN);
          const MutMatView out(y.data(), rows, outputs);
          const ConstActivations some = x.view.row_range(0, rows);
          backend->multiply(*pool, some, *packed, 0, out, Into::kStore);
          expect_near(out, expected.data(), outputs, inputs);
          const std::vector<float> before = random_floats(rows * outputs, 3);
          std::ranges::copy(before, y.begin());
          backend->multiply(*pool, some, *packed, 0, out, Into::kAdd);
          expect_near(out, expected.data(), outputs, inputs, before);
        }
        ASSERT_FALSE(HasFatalFailure()) << rows << " rows";
      }
    }
  }
}

TEST_P(GemmTest, ManyRowsAgreeWithTheTwin) {
  constexpr size_t kInputs = 65, kOutputs = 33, kManyRows = 2600;
  const std::vector<float> values = random_floats(kManyRows * kInputs, 1);
  const ConstMatView rows_of_x(values.data(), kManyRows, kInputs);
  const OwnedActivations x(GetParam().format, rows_of_x);
  const StackedWeights weights(kOutputs, kInputs, 2);
  const std::vector<double> expected =
      expected_product(GetParam().format, rows_of_x, weights.view());
  ThreadPool pool(3);
  const auto packed = backend->pack(pool, weights.views);
  for (const size_t rows : {513, 1030, 2600}) {
    std::vector<float> y(rows * kOutputs, kNaN);
    backend->multiply(pool, x.view.row_range(0, rows), *packed, 0, {y.data(), rows, kOutputs},
                      Into::kStore);
    expect_near({y.data(), rows, kOutputs}, expected.data(), kOutputs, kInputs);
  }
}

TEST_P(GemmTest, WritesTheOutputsThatAreAskedForAndNothingElse) {
  constexpr size_t kInputs = 65, kOutputs = 603, kMostRows = 70, kGap = 3;
  const std::vector<float> values = random_floats(kMostRows * kInputs, 1);
  const ConstMatView rows_of_x(values.data(), kMostRows, kInputs);
  const OwnedActivations x(GetParam().format, rows_of_x);
  const StackedWeights weights(kOutputs, kInputs, 2);
  const std::vector<double> expected =
      expected_product(GetParam().format, rows_of_x, weights.view());
  ThreadPool pool(3);
  const auto packed = backend->pack(pool, weights.views);
  struct Range {
    size_t first, count;
  };
  constexpr Range kRanges[] = {{0, 603},   {0, 1},     {1, 1},    {31, 2},  {32, 32},
                               {17, 147},  {100, 0},   {602, 1},  {603, 0}, {255, 2},
                               {256, 256}, {250, 300}, {512, 91}, {1, 602}};
  for (const auto& [first, count] : kRanges) {
    for (const size_t rows : {1, 13, 70}) {
      SCOPED_TRACE(std::to_string(count) + " from " + std::to_string(first));
      std::vector<float> y(rows * (count + kGap), 7.0f);
      const MutMatView out(y.data(), rows, count, count + kGap);
      backend->multiply(pool, x.view.row_range(0, rows), *packed, first, out, Into::kStore);
      expect_near(out, expected.data() + first, kOutputs, kInputs);
      for (size_t r = 0; r < rows; ++r) {
        for (size_t c = count; c < count + kGap; ++c) ASSERT_EQ(y[r * (count + kGap) + c], 7.0f);
      }
    }
  }
}

TEST_P(GemmTest, RowsOfXMayBeFurtherApart) {
  constexpr size_t kInputs = 65, kOutputs = 147, kMostRows = 70;
  const std::vector<float> values = random_floats(kMostRows * kInputs, 1);
  const ConstMatView rows_of_x(values.data(), kMostRows, kInputs);
  const OwnedActivations x(GetParam().format, rows_of_x, 2 * kActivationAlignment);
  const StackedWeights weights(kOutputs, kInputs, 2);
  const std::vector<double> expected =
      expected_product(GetParam().format, rows_of_x, weights.view());
  ThreadPool pool(3);
  const auto packed = backend->pack(pool, weights.views);
  for (const size_t rows : {1, 13, 70}) {
    std::vector<float> y(rows * kOutputs, kNaN);
    backend->multiply(pool, x.view.row_range(0, rows), *packed, 0, {y.data(), rows, kOutputs},
                      Into::kStore);
    expect_near({y.data(), rows, kOutputs}, expected.data(), kOutputs, kInputs);
  }
}

TEST_P(GemmTest, ProductsAreNearThoseOfNumbersThatAreNotRounded) {
  constexpr size_t kInputs = 400, kOutputs = 65, kMostRows = 33;
  const std::vector<float> values = random_floats(kMostRows * kInputs, 1);
  const ConstMatView rows_of_x(values.data(), kMostRows, kInputs);
  const OwnedActivations x(GetParam().format, rows_of_x);
  const StackedWeights weights(kOutputs, kInputs, 2);
  const std::vector<double> expected = reference::gemm_nt(rows_of_x, weights.view());
  ThreadPool pool(1);
  const auto packed = backend->pack(pool, weights.views);
  std::vector<float> y(kMostRows * kOutputs, kNaN);
  backend->multiply(pool, x.view, *packed, 0, {y.data(), kMostRows, kOutputs}, Into::kStore);
  double error = 0, norm = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    error += (y[i] - expected[i]) * (y[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  // bf16 keeps 8 significant bits, int8 steps of 1/127 of a row's largest number, around 3.
  const double relative = std::sqrt(error / norm);
  const double bound[] = {1e-6, 4e-3, 1.5e-2};
  EXPECT_LT(relative, bound[static_cast<size_t>(GetParam().format)]);
}

TEST_P(GemmTest, ANumberThatIsNotFiniteSpoilsItsRowAlone) {
  constexpr size_t kInputs = 65, kOutputs = 33, kRowCount = 5;
  std::vector<float> values = random_floats(kRowCount * kInputs, 1);
  const StackedWeights weights(kOutputs, kInputs, 2);
  values[1 * kInputs + 7] = std::numeric_limits<float>::infinity();
  values[3 * kInputs + 64] = kNaN;
  const OwnedActivations x(GetParam().format, ConstMatView(values.data(), kRowCount, kInputs));
  ThreadPool pool(1);
  const auto packed = backend->pack(pool, weights.views);
  std::vector<float> y(kRowCount * kOutputs, kNaN);
  backend->multiply(pool, x.view, *packed, 0, {y.data(), kRowCount, kOutputs}, Into::kStore);
  for (size_t i = 0; i < y.size(); ++i) {
    EXPECT_EQ(std::isfinite(y[i]), i / kOutputs % 2 == 0) << i / kOutputs;
  }
}

TEST_P(GemmTest, AcceptsNoRows) {
  const StackedWeights weights(2, 3, 1);
  ThreadPool pool(2);
  const auto packed = backend->pack(pool, weights.views);
  ConstActivations none;
  none.format = backend->format();
  none.cols = 3;
  none.stride = kActivationAlignment;
  EXPECT_NO_THROW(backend->multiply(pool, none, *packed, 0, {nullptr, 0, 2}, Into::kStore));
  EXPECT_NO_THROW(backend->multiply(pool, none, *packed, 0, {nullptr, 0, 2}, Into::kAdd));
}

TEST_P(GemmTest, TwoPoolsMayMultiplyAtOnce) {
  constexpr size_t kInputs = 127, kOutputs = 300, kMostRows = 65;
  const std::vector<float> values = random_floats(kMostRows * kInputs, 1);
  const ConstMatView rows_of_x(values.data(), kMostRows, kInputs);
  const OwnedActivations x(GetParam().format, rows_of_x);
  const StackedWeights weights(kOutputs, kInputs, 2);
  ThreadPool first(1);
  const auto packed = backend->pack(first, weights.views);
  std::vector<std::vector<float>> results(3, std::vector<float>(kMostRows * kOutputs, kNaN));
  std::vector<std::thread> threads;
  for (std::vector<float>& result : results) {
    threads.emplace_back([&] {
      ThreadPool pool(2);
      for (int round = 0; round < 20; ++round) {
        backend->multiply(pool, x.view, *packed, 0, {result.data(), kMostRows, kOutputs},
                          Into::kStore);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<double> expected =
      expected_product(GetParam().format, rows_of_x, weights.view());
  for (const std::vector<float>& result : results) {
    expect_near({result.data(), kMostRows, kOutputs}, expected.data(), kOutputs, kInputs);
  }
}

TEST_P(GemmTest, SaysWhatItIsAndWhatPackingTakes) {
  EXPECT_THAT(backend->description(),
              ::testing::HasSubstr(std::string(name_of(GetParam().format))));
  EXPECT_EQ(backend->format(), GetParam().format);
  EXPECT_GE(backend->packed_bytes(147, 65), 147 * 65 * bytes_of(GetParam().format));
  // Rounded up to panels and cache lines, no more.
  EXPECT_LE(backend->packed_bytes(512, 1024), 512 * 1024 * bytes_of(GetParam().format) * 101 / 100);
}

TEST_P(GemmTest, RefusesWhatIsNoStackOfMatrices) {
  const OwnedTensor vector(DataType::kF32, {6}, random_floats(6, 1));
  const OwnedTensor narrow(DataType::kF32, {3, 2}, random_floats(6, 1));
  const OwnedTensor wide(DataType::kF32, {2, 3}, random_floats(6, 1));
  const std::vector<TensorView> mixed = {narrow.view, wide.view};
  ThreadPool pool(1);
  EXPECT_THROW((void)backend->pack(pool, {}), std::invalid_argument);
  EXPECT_THROW((void)backend->pack(pool, std::span(&vector.view, 1)), std::invalid_argument);
  EXPECT_THROW((void)backend->pack(pool, mixed), std::invalid_argument);
  EXPECT_THROW((void)backend->pack_gated(pool, narrow.view, wide.view), std::invalid_argument);
}

class SomeoneElsesMatrix final : public PackedMatrix {
 public:
  size_t outputs() const override { return 147; }
  size_t inputs() const override { return 65; }
};

TEST_P(GemmTest, RefusesOperandsThatDoNotFit) {
  const StackedWeights weights(147, 65, 1);
  ThreadPool pool(1);
  const auto packed = backend->pack(pool, weights.views);
  const NumberFormat format = GetParam().format;
  const OwnedActivations x(format, ConstMatView(weights.values.data(), 4, 65));
  const OwnedActivations narrow(format, ConstMatView(weights.values.data(), 4, 64));
  const OwnedActivations other(
      format == NumberFormat::kF32 ? NumberFormat::kBf16 : NumberFormat::kF32, 4, 65);
  std::vector<float> memory(4 * 200);
  const MutMatView y(memory.data(), 4, 147);
  const auto multiply = [&](ConstActivations a, const PackedMatrix& w, size_t first, MutMatView c) {
    backend->multiply(pool, a, w, first, c, Into::kStore);
  };
  EXPECT_NO_THROW(multiply(x.view, *packed, 0, y));
  EXPECT_THROW(multiply(narrow.view, *packed, 0, y), std::invalid_argument);
  EXPECT_THROW(multiply(other.view, *packed, 0, y), std::invalid_argument);
  EXPECT_THROW(multiply(x.view, *packed, 1, y), std::invalid_argument);
  EXPECT_THROW(multiply(x.view, *packed, 0, {memory.data(), 4, 148}), std::invalid_argument);
  EXPECT_THROW(multiply(x.view, *packed, 0, {memory.data(), 3, 147}), std::invalid_argument);
  EXPECT_THROW(multiply(x.view, SomeoneElsesMatrix(), 0, y), std::invalid_argument);
  ConstActivations unpadded = x.view;
  unpadded.stride = 65 * bytes_of(format);
  EXPECT_THROW(multiply(unpadded, *packed, 0, y), std::invalid_argument);
  if (format == NumberFormat::kInt8) {
    ConstActivations no_scales = x.view;
    no_scales.scales = nullptr;
    EXPECT_THROW(multiply(no_scales, *packed, 0, y), std::invalid_argument);
  }
}

/// What make_onednn_gemm() throws, empty if nothing.
std::string refusal(NumberFormat format, Isa isa) {
  try {
    make_onednn_gemm(format, isa);
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

TEST(OneDnnGemm, RefusesFormatsThatTheInstructionSetLacksWithAdvice) {
  using ::testing::AllOf;
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal(NumberFormat::kBf16, Isa::kAvx2),
              AllOf(HasSubstr("offers avx2, not avx512"), HasSubstr("native")));
  EXPECT_THAT(refusal(NumberFormat::kInt8, Isa::kAvx512),
              AllOf(HasSubstr("offers avx512, not avx512vnni"), HasSubstr("native")));
  EXPECT_EQ(refusal(NumberFormat::kF32, Isa::kScalar), "");
}

size_t threads_of_this_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

TEST(OneDnnGemm, StartsNoThreadsOfItsOwn) {
  const auto backend = make_onednn_gemm(NumberFormat::kF32, usable_isa());
  const StackedWeights weights(600, 1024, 1);
  const OwnedActivations x(NumberFormat::kF32, weights.view().row_range(0, 512));
  ThreadPool pool(2);
  const size_t before = threads_of_this_process();
  std::vector<float> y(512 * 600);
  backend->multiply(pool, x.view, *backend->pack(pool, weights.views), 0, {y.data(), 512, 600},
                    Into::kStore);
  EXPECT_EQ(threads_of_this_process(), before);
}

TEST(OneDnnGemm, Int8AgreesWithNative) {
  if (usable_isa() < Isa::kAvx512Vnni) GTEST_SKIP() << "int8 needs avx512vnni";
  constexpr size_t kInputs = 1023, kOutputs = 300, kRowCount = 70;
  const std::vector<float> values = random_floats(kRowCount * kInputs, 1);
  const OwnedActivations x(NumberFormat::kInt8, ConstMatView(values.data(), kRowCount, kInputs));
  const StackedWeights weights(kOutputs, kInputs, 2);
  ThreadPool pool(2);
  const auto multiply = [&](const GemmBackend& backend) {
    std::vector<float> y(kRowCount * kOutputs, kNaN);
    backend.multiply(pool, x.view, *backend.pack(pool, weights.views), 0,
                     {y.data(), kRowCount, kOutputs}, Into::kStore);
    return y;
  };
  const std::vector<float> onednn = multiply(*make_onednn_gemm(NumberFormat::kInt8, usable_isa()));
  const std::vector<float> native = multiply(*make_native_gemm(NumberFormat::kInt8, usable_isa()));
  for (size_t i = 0; i < native.size(); ++i) EXPECT_FLOAT_EQ(onednn[i], native[i]);
}

TEST(OpenBlasGemm, TheDescriptionNamesTheKernels) {
  EXPECT_THAT(make_openblas_gemm()->description(),
              ::testing::HasSubstr("openblas f32 (" + openblas_kernel_set()));
}

}  // namespace
}  // namespace espalier::engine
