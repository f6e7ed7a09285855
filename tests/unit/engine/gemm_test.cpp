#include "engine/gemm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "engine/sgemm.h"
#include "tests/reference/gemm.h"
#include "tests/unit/engine/random_matrix.h"

namespace espalier::engine {
namespace {

/// `c` (rows × cols of `view`) against the twin's answer, allowing for f32 sums of `inner`
/// products.
void expect_near(ConstMatView view, const std::vector<double>& expected, size_t inner) {
  const double tolerance = 1e-6 * std::sqrt(static_cast<double>(inner)) * 4;
  for (size_t r = 0; r < view.rows; ++r) {
    for (size_t c = 0; c < view.cols; ++c) {
      ASSERT_NEAR(view.row(r)[c], expected[r * view.cols + c], tolerance) << r << ", " << c;
    }
  }
}

struct Shape {
  size_t m, n, k;
};
constexpr Shape kShapes[] = {{1, 1, 1},      {1, 3, 17},      {3, 1, 63},
                             {17, 65, 3},    {63, 64, 65},    {65, 127, 1},
                             {127, 17, 127}, {130, 129, 400}, {2, 500, 33}};

TEST(Sgemm, AllTranspositionsAgreeWithTheTwin) {
  for (const auto& [m, n, k] : kShapes) {
    const std::vector<float> a = random_floats(m * k, 1);
    const std::vector<float> b = random_floats(n * k, 2);
    const ConstMatView a_view(a.data(), m, k), b_view(b.data(), n, k);
    const std::vector<float> a_transposed = reference::transposed(a_view);
    const std::vector<float> b_transposed = reference::transposed(b_view);
    const std::vector<double> expected = reference::gemm_nt(a_view, b_view);
    std::vector<float> c(m * n, std::numeric_limits<float>::quiet_NaN());
    const MutMatView c_view(c.data(), m, n);
    sgemm_nt(1.0f, a_view, b_view, 0.0f, c_view);
    expect_near(c_view, expected, k);
    std::fill(c.begin(), c.end(), std::numeric_limits<float>::quiet_NaN());
    sgemm_nn(1.0f, a_view, {b_transposed.data(), k, n}, 0.0f, c_view);
    expect_near(c_view, expected, k);
    std::fill(c.begin(), c.end(), std::numeric_limits<float>::quiet_NaN());
    sgemm_tn(1.0f, {a_transposed.data(), k, m}, {b_transposed.data(), k, n}, 0.0f, c_view);
    expect_near(c_view, expected, k);
  }
}

TEST(Sgemm, ScalesAndAddsWithinStridedViews) {
  constexpr size_t kM = 5, kN = 7, kK = 9, kStride = 20;
  const std::vector<float> a = random_floats(kM * kStride, 3);
  const std::vector<float> b = random_floats(kN * kStride, 4);
  std::vector<float> c = random_floats(kM * kStride, 5);
  const std::vector<float> before = c;
  const ConstMatView a_view(a.data(), kM, kK, kStride), b_view(b.data(), kN, kK, kStride);
  const MutMatView c_view(c.data(), kM, kN, kStride);
  sgemm_nt(0.5f, a_view, b_view, 2.0f, c_view);
  const std::vector<double> product = reference::gemm_nt(a_view, b_view);
  for (size_t i = 0; i < c.size(); ++i) {
    const size_t row = i / kStride, column = i % kStride;
    if (column >= kN) {
      EXPECT_EQ(c[i], before[i]) << "outside of the view";
    } else {
      EXPECT_NEAR(c[i], 0.5 * product[row * kN + column] + 2.0 * before[i], 1e-5);
    }
  }
}

TEST(Sgemm, AnEmptySumIsZeroAndAnEmptyMatrixIsLeftAlone) {
  std::vector<float> c(6, 4.0f);
  sgemm_nt(1.0f, {nullptr, 2, 0}, {nullptr, 3, 0}, 0.0f, {c.data(), 2, 3});
  EXPECT_EQ(c, std::vector<float>(6, 0.0f));
  sgemm_nn(1.0f, {nullptr, 0, 3}, {c.data(), 3, 2}, 0.0f, {nullptr, 0, 2});
  EXPECT_EQ(c, std::vector<float>(6, 0.0f));
}

TEST(Sgemm, ManyThreadsAtOnceGetTheirOwnResults) {
  constexpr size_t kM = 33, kN = 65, kK = 129;
  std::vector<std::thread> threads;
  std::vector<std::vector<float>> results(4, std::vector<float>(kM * kN));
  for (uint32_t t = 0; t < results.size(); ++t) {
    threads.emplace_back([&, t] {
      const std::vector<float> a = random_floats(kM * kK, t);
      const std::vector<float> b = random_floats(kN * kK, t + 100);
      for (int round = 0; round < 20; ++round) {
        sgemm_nt(1.0f, {a.data(), kM, kK}, {b.data(), kN, kK}, 0.0f, {results[t].data(), kM, kN});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (uint32_t t = 0; t < results.size(); ++t) {
    const std::vector<float> a = random_floats(kM * kK, t);
    const std::vector<float> b = random_floats(kN * kK, t + 100);
    expect_near({results[t].data(), kM, kN},
                reference::gemm_nt({a.data(), kM, kK}, {b.data(), kN, kK}), kK);
  }
}

TEST(SgemmDeathTest, ShapesThatDisagreeAbortWithTheValues) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  std::vector<float> memory(100);
  EXPECT_DEATH(
      sgemm_nt(1.0f, {memory.data(), 2, 3}, {memory.data(), 4, 5}, 0.0f, {memory.data(), 2, 4}),
      "a 2 x 3, b 4 x 5, c 2 x 4");
}

/// A tensor with bytes of its own.
struct OwnedTensor {
  std::vector<std::byte> bytes;
  TensorView view;

  OwnedTensor(DataType dtype, std::vector<size_t> shape, const std::vector<float>& values)
      : bytes(values.size() * bytes_of(dtype) + 1) {
    // One byte off any alignment, as in a file.
    for (size_t i = 0; i < values.size(); ++i) {
      uint32_t bits;
      std::memcpy(&bits, &values[i], sizeof(bits));
      if (dtype == DataType::kBF16) bits >>= 16;
      std::memcpy(bytes.data() + 1 + i * bytes_of(dtype), &bits, bytes_of(dtype));
    }
    view = {dtype, std::move(shape), std::span<const std::byte>(bytes).subspan(1)};
  }
};

/// Numbers that bf16 holds exactly, so that one expectation serves both types.
std::vector<float> bf16_floats(size_t count, uint32_t seed) {
  std::vector<float> values = random_floats(count, seed);
  for (float& value : values) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    bits &= 0xffff0000u;
    std::memcpy(&value, &bits, sizeof(value));
  }
  return values;
}

TEST(OpenBlasGemm, MultipliesWithStackedWeightsOfAnyType) {
  const std::unique_ptr<GemmBackend> backend = make_openblas_gemm();
  constexpr size_t kInputs = 65;
  const std::vector<float> first = bf16_floats(17 * kInputs, 1);
  const std::vector<float> second = bf16_floats(130 * kInputs, 2);
  const OwnedTensor f32(DataType::kF32, {17, kInputs}, first);
  const OwnedTensor bf16(DataType::kBF16, {130, kInputs}, second);
  const std::vector<TensorView> stack = {f32.view, bf16.view};
  const std::unique_ptr<PackedMatrix> packed = backend->pack(stack);
  EXPECT_EQ(packed->outputs(), 147u);
  EXPECT_EQ(packed->inputs(), kInputs);
  EXPECT_EQ(backend->packed_bytes(147, kInputs), 147 * kInputs * sizeof(float));

  std::vector<float> weights = first;
  weights.insert(weights.end(), second.begin(), second.end());
  for (const size_t threads : {1, 3}) {
    ThreadPool pool(threads);
    for (const size_t rows : {1, 3, 63, 513, 1030}) {
      const std::vector<float> x = random_floats(rows * kInputs, 3);
      std::vector<float> y(rows * 147, std::numeric_limits<float>::quiet_NaN());
      backend->multiply(pool, {x.data(), rows, kInputs}, *packed, {y.data(), rows, 147});
      expect_near({y.data(), rows, 147},
                  reference::gemm_nt({x.data(), rows, kInputs}, {weights.data(), 147, kInputs}),
                  kInputs);
    }
  }
}

TEST(OpenBlasGemm, AcceptsNoRows) {
  const std::unique_ptr<GemmBackend> backend = make_openblas_gemm();
  const OwnedTensor tensor(DataType::kF32, {2, 3}, random_floats(6, 1));
  const std::unique_ptr<PackedMatrix> packed = backend->pack(std::span(&tensor.view, 1));
  ThreadPool pool(2);
  EXPECT_NO_THROW(backend->multiply(pool, {nullptr, 0, 3}, *packed, {nullptr, 0, 2}));
}

TEST(OpenBlasGemm, RefusesWhatIsNoStackOfMatrices) {
  const std::unique_ptr<GemmBackend> backend = make_openblas_gemm();
  const OwnedTensor vector(DataType::kF32, {6}, random_floats(6, 1));
  const OwnedTensor narrow(DataType::kF32, {3, 2}, random_floats(6, 1));
  const OwnedTensor wide(DataType::kF32, {2, 3}, random_floats(6, 1));
  const std::vector<TensorView> mixed = {narrow.view, wide.view};
  EXPECT_THROW((void)backend->pack({}), std::invalid_argument);
  EXPECT_THROW((void)backend->pack(std::span(&vector.view, 1)), std::invalid_argument);
  EXPECT_THROW((void)backend->pack(mixed), std::invalid_argument);
  const std::unique_ptr<PackedMatrix> packed = backend->pack(std::span(&wide.view, 1));
  ThreadPool pool(1);
  std::vector<float> memory(20);
  EXPECT_THROW(backend->multiply(pool, {memory.data(), 2, 4}, *packed, {memory.data() + 10, 2, 2}),
               std::invalid_argument);
}

TEST(OpenBlasGemm, TheDescriptionNamesTheKernels) {
  EXPECT_THAT(make_openblas_gemm()->description(),
              ::testing::HasSubstr("openblas f32 (" + openblas_kernel_set()));
}

}  // namespace
}  // namespace espalier::engine
