#include "scheduler/cost_model.h"

#include <gtest/gtest.h>

#include <random>

namespace espalier::scheduler {
namespace {

constexpr PassCosts kCosts{0.00026, 0.03};

PassWork random_work(std::mt19937& random) {
  const auto rows = static_cast<double>(1 + random() % 4096);
  const auto length = static_cast<double>(1 + random() % 1024);
  return {rows, rows * length / 2, 1 + rows / length};
}

TEST(CostModel, KnowsNothingAtFirst) {
  const CostModel model(kCosts);
  EXPECT_EQ(model.coefficients().seconds({1000, 1e6, 10}), 0);
}

TEST(CostModel, FindsTheCoefficientsThatTheTimesWereMadeWith) {
  std::mt19937 random(1);
  CostModel model(kCosts);
  const CostCoefficients truth{0.02, 1e-3, 4e-7, 5e-5};
  for (int i = 0; i < 500; ++i) {
    const PassWork work = random_work(random);
    model.observe(work, truth.seconds(work));
  }
  const CostCoefficients found = model.coefficients();
  EXPECT_NEAR(found.fixed, truth.fixed, 0.05 * truth.fixed);
  EXPECT_NEAR(found.row, truth.row, 0.05 * truth.row);
  EXPECT_NEAR(found.pair, truth.pair, 0.1 * truth.pair);
  for (int i = 0; i < 100; ++i) {
    const PassWork work = random_work(random);
    EXPECT_NEAR(found.seconds(work), truth.seconds(work), 0.02 * truth.seconds(work));
  }
}

TEST(CostModel, PredictsFromAFewBatchesThoughTheyAreAlike) {
  CostModel model(kCosts);
  const PassWork work{1000, 100'000, 10};
  for (size_t i = 0; i < CostModel::kObservationsMin; ++i) {
    EXPECT_EQ(model.coefficients().seconds({1000, 1e6, 10}), 0);
    model.observe(work, 2);
  }
  EXPECT_NEAR(model.coefficients().seconds(work), 2, 0.02);
  // Twice the work, about twice the time.
  EXPECT_NEAR(model.coefficients().seconds({2000, 200'000, 20}), 4, 0.4);
}

TEST(CostModel, NeverHasANegativeCoefficient) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 200; ++trial) {
    CostModel model(kCosts);
    for (int i = 0; i < 20; ++i) {
      // Times that contradict the model: fewer rows take longer.
      const PassWork work = random_work(random);
      model.observe(work, 1 / work.rows + 1e-4 * static_cast<double>(random() % 100));
      const CostCoefficients c = model.coefficients();
      ASSERT_GE(c.fixed, 0);
      ASSERT_GE(c.row, 0);
      ASSERT_GE(c.pair, 0);
      ASSERT_GE(c.wanted, 0);
    }
  }
}

TEST(CostModel, FollowsAMachineThatBecomesSlower) {
  std::mt19937 random(3);
  CostModel model(kCosts);
  const CostCoefficients before{0.01, 1e-3, 3e-7, 0};
  const CostCoefficients after{0.02, 2e-3, 6e-7, 0};
  for (int i = 0; i < 300; ++i) {
    const PassWork work = random_work(random);
    model.observe(work, before.seconds(work));
  }
  for (int i = 0; i < 300; ++i) {
    const PassWork work = random_work(random);
    model.observe(work, after.seconds(work));
  }
  const PassWork work{2000, 1e6, 10};
  EXPECT_NEAR(model.coefficients().seconds(work), after.seconds(work), 0.05 * after.seconds(work));
}

TEST(CostModel, ReachesTheNoiseOfTheTimes) {
  std::mt19937 random(4);
  std::normal_distribution<double> noise(1, 0.1);
  CostModel model(kCosts);
  const CostCoefficients truth{0.02, 1e-3, 4e-7, 5e-5};
  for (int i = 0; i < 1000; ++i) {
    const PassWork work = random_work(random);
    model.observe(work, truth.seconds(work) * std::max(0.5, noise(random)));
  }
  for (int i = 0; i < 100; ++i) {
    const PassWork work = random_work(random);
    EXPECT_NEAR(model.coefficients().seconds(work), truth.seconds(work),
                0.15 * truth.seconds(work));
  }
}

TEST(CostModel, AColdStartIsSoonForgotten) {
  CostModel model(kCosts);
  const PassWork work{100, 5000, 2};
  model.observe(work, 5);  // waited for its weights
  for (int i = 0; i < 3; ++i) model.observe(work, 0.1);
  EXPECT_NEAR(model.coefficients().seconds(work), 0.1, 0.01);
}

TEST(CostModel, IgnoresWhatTookNoTime) {
  CostModel model(kCosts);
  model.observe({10, 55, 1}, 0);
  model.observe({0, 0, 0}, 1);
  EXPECT_EQ(model.coefficients().seconds({1000, 1e6, 10}), 0);
}

}  // namespace
}  // namespace espalier::scheduler
