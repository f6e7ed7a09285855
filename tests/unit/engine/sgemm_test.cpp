#include "engine/sgemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

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

TEST(Sgemm, AgreesWithTheTwin) {
  for (const auto& [m, n, k] : kShapes) {
    const std::vector<float> a = random_floats(m * k, 1);
    const std::vector<float> b = random_floats(n * k, 2);
    const ConstMatView a_view(a.data(), m, k), b_view(b.data(), n, k);
    const std::vector<double> expected = reference::gemm_nt(a_view, b_view);
    std::vector<float> c(m * n, std::numeric_limits<float>::quiet_NaN());
    const MutMatView c_view(c.data(), m, n);
    sgemm_nt(1.0f, a_view, b_view, 0.0f, c_view);
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
  sgemm_nt(1.0f, {nullptr, 0, 3}, {c.data(), 2, 3}, 0.0f, {nullptr, 0, 2});
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

}  // namespace
}  // namespace espalier::engine
