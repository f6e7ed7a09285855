// int8 with outliers: a few channels of the hidden state that are a hundred times larger than the
// others, as trained models have them (Dettmers et al. 2022, "LLM.int8()"), wherever they come
// from. What int8 does not stand is in docs/NUMERICS.md.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "engine/gemm.h"
#include "models/model.h"
#include "tests/reference/naive_plan.h"
#include "tests/unit/models/tiny_model.h"

namespace espalier::models {
namespace {

using engine::NumberFormat;
using reference::TokenIds;

constexpr test::TinyShape kShape{.layers = 4,
                                 .hidden = 256,
                                 .intermediate = 512,
                                 .query_heads = 8,
                                 .kv_heads = 4,
                                 .head_dim = 32,
                                 .vocabulary = 200};
constexpr size_t kOutliers[] = {3, 100, 101, 250};
constexpr float kFactor = 100.0F;

/// Weights and gains as training starts them, so that the small channels carry what matters.
test::TinyModel random_model() {
  test::TinyModel tiny(kShape);
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (auto& [name, tensor] : tiny.tensors) {
    const bool is_gain = tensor.shape.size() == 1;
    for (float& value : tensor.values) {
      value = is_gain ? 1.0F + 0.1F * normal(random) : 0.06F * normal(random);
    }
  }
  return tiny;
}

void enlarge_columns(test::TestTensor& tensor) {
  for (size_t i = 0; i < tensor.values.size(); ++i) {
    for (const size_t channel : kOutliers) {
      if (i % tensor.shape.back() == channel) tensor.values[i] *= kFactor;
    }
  }
}

void enlarge_rows(test::TestTensor& tensor) {
  for (const size_t row : kOutliers) {
    for (size_t i = 0; i < tensor.shape[1]; ++i)
      tensor.values[row * tensor.shape[1] + i] *= kFactor;
  }
}

std::vector<float> last_states(const std::filesystem::path& folder, NumberFormat format) {
  Model model = Model::load(folder, engine::make_native_gemm(format, engine::usable_isa()),
                            std::make_shared<engine::ThreadPool>(2), {});
  std::mt19937 random(6);
  std::vector<TokenIds> sequences(16, TokenIds(40));
  for (TokenIds& ids : sequences) {
    for (uint32_t& id : ids) id = static_cast<uint32_t>(random() % kShape.vocabulary);
  }
  const engine::ConstMatView states =
      model.forward_pass().run(reference::naive_plan(sequences, engine::DedupMode::kTrie), {});
  return {states.data, states.data + states.rows * states.cols};
}

/// Of the cosines of texts' states to their states in f32.
struct Cosines {
  double mean = 0;
  double least = 1;
};

Cosines cosines_to_f32(const test::TinyModel& tiny) {
  const test::TemporaryFolder folder;
  tiny.write(folder);
  const std::vector<float> exact = last_states(folder.path(), NumberFormat::kF32);
  const std::vector<float> rounded = last_states(folder.path(), NumberFormat::kInt8);
  Cosines cosines;
  for (size_t row = 0; row < exact.size(); row += kShape.hidden) {
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = row; i < row + kShape.hidden; ++i) {
      ab += static_cast<double>(exact[i]) * rounded[i];
      aa += static_cast<double>(exact[i]) * exact[i];
      bb += static_cast<double>(rounded[i]) * rounded[i];
    }
    const double cosine = ab / std::sqrt(aa * bb);
    cosines.least = std::min(cosines.least, cosine);
    cosines.mean += cosine * kShape.hidden / static_cast<double>(exact.size());
  }
  return cosines;
}

/// Of 16 texts, one or the other suffers more.
void expect_similar(const test::TinyModel& tiny) {
  const Cosines cosines = cosines_to_f32(tiny);
  EXPECT_GT(cosines.mean, 0.99);
  EXPECT_GT(cosines.least, 0.98);
}

TEST(Int8Outliers, NoneAtAll) { expect_similar(random_model()); }

TEST(Int8Outliers, ChannelsOfTheResidualStream) {
  test::TinyModel tiny = random_model();
  enlarge_columns(tiny.tensors.at("model.embed_tokens.weight"));
  expect_similar(tiny);
}

TEST(Int8Outliers, ChannelsOfTheGains) {
  test::TinyModel tiny = random_model();
  for (auto& [name, tensor] : tiny.tensors) {
    if (name.find("layernorm") == std::string::npos) continue;
    for (const size_t channel : kOutliers) tensor.values[channel] *= kFactor;
  }
  expect_similar(tiny);
}

TEST(Int8Outliers, ChannelsThatAMlpWrites) {
  test::TinyModel tiny = random_model();
  for (auto& [name, tensor] : tiny.tensors) {
    if (name.find("down_proj") != std::string::npos) enlarge_rows(tensor);
  }
  expect_similar(tiny);
}

}  // namespace
}  // namespace espalier::models
