#include "models/dense_layer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/unit/models/tiny_model.h"

namespace espalier::models {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kInputs = 8, kOutputs = 5;

class DenseLayerTest : public testing::Test {
 protected:
  DenseLayerTest() {
    tensors_["linear.weight"] = test::random_tensor({kOutputs, kInputs}, 1);
    tensors_["linear.bias"] = test::random_tensor({kOutputs}, 2);
    config_.folder = folder_.path();
    config_.inputs = kInputs;
    config_.outputs = kOutputs;
  }

  DenseLayer load() {
    folder_.write("model.safetensors", test::safetensors_bytes(tensors_));
    return DenseLayer::load(config_);
  }
  std::string error() {
    try {
      load();
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "no error";
  }

  test::TemporaryFolder folder_;
  test::TestTensors tensors_;
  DenseConfig config_;
  const std::vector<float> x_ = test::random_tensor({kInputs}, 3).values;
};

TEST_F(DenseLayerTest, EveryDtypeGivesActivationOfProductAndBias) {
  for (const auto dtype :
       {engine::DataType::kF32, engine::DataType::kF16, engine::DataType::kBF16}) {
    for (auto& [name, tensor] : tensors_) tensor.dtype = dtype;
    const std::vector<float> y = load().apply(x_);
    ASSERT_EQ(y.size(), kOutputs);
    for (size_t i = 0; i < kOutputs; ++i) {
      double sum = tensors_["linear.bias"].values[i];
      for (size_t k = 0; k < kInputs; ++k) {
        sum += static_cast<double>(tensors_["linear.weight"].values[i * kInputs + k]) * x_[k];
      }
      EXPECT_NEAR(y[i], std::tanh(sum), 1e-6);
    }
  }
}

TEST_F(DenseLayerTest, TensorsOfOtherShapesOrNamesAreRefused) {
  config_.outputs = size_t{1} << 20U;  // far more than the file has
  EXPECT_THAT(error(), HasSubstr("linear.weight"));
  config_.outputs = kOutputs;
  tensors_["linear.weight"] = test::random_tensor({kInputs, kOutputs}, 1);
  EXPECT_THAT(error(), HasSubstr("linear.weight"));
  tensors_["linear.weight"] = test::random_tensor({kOutputs, kInputs}, 1);
  config_.bias = false;
  EXPECT_THAT(error(), AllOf(HasSubstr("linear.bias"), HasSubstr("bias: false")));
  tensors_.erase("linear.bias");
  EXPECT_EQ(error(), "no error");
  config_.bias = true;
  EXPECT_THAT(error(), HasSubstr("linear.bias"));
  tensors_["linear.bias"] = test::random_tensor({kOutputs + 1}, 2);
  EXPECT_THAT(error(), HasSubstr("linear.bias"));
  tensors_["linear.bias"] = test::random_tensor({kOutputs}, 2);
  tensors_["linear.scale"] = test::random_tensor({1}, 2);
  EXPECT_THAT(error(), HasSubstr("linear.scale"));
}

TEST_F(DenseLayerTest, OfOtherInputsNothingIsRead) {
  EXPECT_THROW(load().apply(std::vector<float>(kInputs - 1)), std::out_of_range);
}

/// Answers are looked at before they are sent, and the first pass refuses the model.
TEST_F(DenseLayerTest, WhatIsNotFiniteStaysSo) {
  tensors_["linear.weight"].values[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(load().apply(x_)[0]));
}

}  // namespace
}  // namespace espalier::models
