#include "models/rope_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/unit/models/tiny_model.h"

namespace espalier::models {
namespace {

using engine::RopeScaling;
using test::error_of;
using test::TemporaryFolder;
using test::TinyModel;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Kind = RopeScaling::Kind;

/// The tiny model has rope_theta 10000 and 1024 positions.
ModelConfig read(const TinyModel& model) {
  const TemporaryFolder folder;
  folder.write("config.json", model.config_json());
  return read_model_config(folder.path());
}

ModelConfig read_with(const std::string& rope_scaling) {
  TinyModel model;
  model.config["rope_scaling"] = rope_scaling;
  return read(model);
}

TEST(RopeConfig, WithoutScalingFrequenciesArePlain) {
  for (const char* json : {"null", R"({"rope_type": "default"})", R"({"type": "default"})"}) {
    const ModelConfig config = read_with(json);
    EXPECT_EQ(config.rope_scaling, RopeScaling{}) << json;
    EXPECT_EQ(config.rope_theta, 1e4);
    EXPECT_EQ(config.max_positions, 1024U);
  }
}

TEST(RopeConfig, ReadsLinear) {
  for (const char* name : {"type", "rope_type"}) {
    const ModelConfig config =
        read_with("{\"" + std::string(name) + R"(": "linear", "factor": 4})");
    EXPECT_EQ(config.rope_scaling.kind, Kind::kLinear);
    EXPECT_EQ(config.rope_scaling.factor, 4);
    EXPECT_EQ(config.rope_scaling.attention_factor, 1);
    EXPECT_EQ(config.max_positions, 1024U);
  }
}

TEST(RopeConfig, ReadsLlama3AsPublished) {
  const ModelConfig config = read_with(R"({"factor": 8.0, "low_freq_factor": 1.0,
      "high_freq_factor": 4.0, "original_max_position_embeddings": 256, "rope_type": "llama3"})");
  EXPECT_EQ(config.rope_scaling.kind, Kind::kLlama3);
  EXPECT_EQ(config.rope_scaling.factor, 8);
  EXPECT_EQ(config.rope_scaling.low_freq_factor, 1);
  EXPECT_EQ(config.rope_scaling.high_freq_factor, 4);
  EXPECT_EQ(config.rope_scaling.original_positions, 256);
  EXPECT_EQ(config.max_positions, 1024U);
}

/// As Qwen2.5's model card has users write it, where max_position_embeddings stays as it is.
TEST(RopeConfig, ReadsYarnAndItsLongerTexts) {
  const ModelConfig config =
      read_with(R"({"factor": 4.0, "original_max_position_embeddings": 1024, "type": "yarn"})");
  EXPECT_EQ(config.rope_scaling.kind, Kind::kYarn);
  EXPECT_EQ(config.rope_scaling.factor, 4);
  EXPECT_EQ(config.rope_scaling.original_positions, 1024);
  EXPECT_EQ(config.rope_scaling.beta_fast, 32);
  EXPECT_EQ(config.rope_scaling.beta_slow, 1);
  EXPECT_TRUE(config.rope_scaling.truncate);
  EXPECT_NEAR(config.rope_scaling.attention_factor, 0.1 * std::log(4.0) + 1, 1e-15);
  EXPECT_EQ(config.rope_positions, 4096U);
  EXPECT_EQ(config.max_positions, 4096U);
}

TEST(RopeConfig, YarnsFactorFollowsFromTheOriginalPositions) {
  const ModelConfig config =
      read_with(R"({"rope_type": "yarn", "original_max_position_embeddings": 128})");
  EXPECT_EQ(config.rope_scaling.factor, 8);
  EXPECT_EQ(config.max_positions, 1024U);
  EXPECT_EQ(read_with(R"({"rope_type": "yarn", "factor": 2})").rope_scaling.original_positions,
            1024);
}

TEST(RopeConfig, ReadsYarnsOptions) {
  const ModelConfig config = read_with(R"({"rope_type": "yarn", "factor": 40, "beta_fast": 24,
      "beta_slow": 2.5, "truncate": false, "mscale": 0.707, "mscale_all_dim": 1.0,
      "original_max_position_embeddings": 16})");
  EXPECT_EQ(config.rope_scaling.beta_fast, 24);
  EXPECT_EQ(config.rope_scaling.beta_slow, 2.5);
  EXPECT_FALSE(config.rope_scaling.truncate);
  EXPECT_NEAR(config.rope_scaling.attention_factor,
              (0.0707 * std::log(40) + 1) / (0.1 * std::log(40) + 1), 1e-12);
  // Without its partner mscale is not used; attention_factor comes before both.
  EXPECT_NEAR(read_with(R"({"rope_type": "yarn", "factor": 2, "mscale": 0.5})")
                  .rope_scaling.attention_factor,
              0.1 * std::log(2) + 1, 1e-12);
  EXPECT_EQ(read_with(R"({"rope_type": "yarn", "factor": 2, "mscale": 0.5, "mscale_all_dim": 1,
                          "attention_factor": 1.25})")
                .rope_scaling.attention_factor,
            1.25);
}

TEST(RopeConfig, NewerFilesHaveRopeParameters) {
  TinyModel model;
  model.config.erase("rope_scaling");
  model.config.erase("rope_theta");
  model.config["rope_parameters"] = R"({"rope_type": "linear", "factor": 2, "rope_theta": 500000})";
  const ModelConfig config = read(model);
  EXPECT_EQ(config.rope_scaling.kind, Kind::kLinear);
  EXPECT_EQ(config.rope_theta, 5e5);
  // Both, when they say the same.
  model.config["rope_scaling"] = R"({"type": "linear", "factor": 2.0})";
  EXPECT_EQ(read(model).rope_theta, 5e5);
  model.config["rope_scaling"] = R"({"type": "linear", "factor": 3.0})";
  EXPECT_THAT(error_of([&] { read(model); }),
              HasSubstr("rope_scaling: contradicts rope_parameters"));
}

TEST(RopeConfig, OriginalPositionsMayStandBesideIt) {
  TinyModel model;
  model.config["rope_scaling"] = R"({"type": "yarn", "factor": 4})";
  model.config["original_max_position_embeddings"] = "512";
  EXPECT_EQ(read(model).rope_scaling.original_positions, 512);
  model.config["rope_scaling"] =
      R"({"type": "yarn", "factor": 4, "original_max_position_embeddings": 256})";
  EXPECT_THAT(error_of([&] { read(model); }),
              HasSubstr("original_max_position_embeddings: contradicts"));
}

struct Refusal {
  std::string json, reason;
};

class RefusedRope : public ::testing::TestWithParam<Refusal> {};

TEST_P(RefusedRope, NamesFileKeyAndReason) {
  const auto& [json, reason] = GetParam();
  EXPECT_THAT(error_of([&] { read_with(json); }),
              AllOf(HasSubstr("config.json: rope_scaling: "), HasSubstr(reason)))
      << json;
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, RefusedRope,
    ::testing::Values(
        Refusal{"{}", "rope_type: is missing; supported: default, linear, llama3, yarn"},
        Refusal{R"({"type": "dynamic", "factor": 2})", "rope_type: \"dynamic\" is not supported"},
        Refusal{R"({"rope_type": "longrope"})", "rope_type: \"longrope\" is not supported"},
        Refusal{R"({"type": "mrope", "mrope_section": [1]})", "\"mrope\" is not supported"},
        Refusal{R"({"type": "su"})", "\"su\" is not supported"},
        Refusal{R"({"rope_type": "linear", "type": "yarn"})", "type: contradicts rope_type"},
        Refusal{R"({"rope_type": 3})", "rope_type: expected a string"},
        Refusal{R"({"full_attention": {"rope_type": "default"}})", "rope_type: is missing"},
        Refusal{R"({"rope_type": "default", "rope_theta": 5})", "contradicts another rope_theta"},
        Refusal{R"({"rope_type": "default", "partial_rotary_factor": 0.5})", "unless 1"},
        Refusal{R"({"rope_type": "default", "factor": 2})", "factor: is not a key of"}));

INSTANTIATE_TEST_SUITE_P(
    Linear, RefusedRope,
    ::testing::Values(
        Refusal{R"({"type": "linear"})", "factor: is missing"},
        Refusal{R"({"type": "linear", "factor": 0.5})", "factor: must be at least 1"},
        Refusal{R"({"type": "linear", "factor": 0})", "factor: must be above 0"},
        Refusal{R"({"type": "linear", "factor": -2})", "factor: must be above 0"},
        Refusal{R"({"type": "linear", "factor": 1e300})", "factor: must be above 0 and at most"},
        Refusal{R"({"type": "linear", "factor": "2"})", "factor: expected a finite number"},
        Refusal{R"({"type": "linear", "factor": 2, "low_freq_factor": 1})",
                "low_freq_factor: is not a key of rotary embedding of kind linear"}));

INSTANTIATE_TEST_SUITE_P(
    Llama3, RefusedRope,
    ::testing::Values(
        Refusal{R"({"rope_type": "llama3", "low_freq_factor": 1, "high_freq_factor": 4})",
                "factor: is missing"},
        Refusal{R"({"rope_type": "llama3", "factor": 8, "high_freq_factor": 4})",
                "low_freq_factor: is missing"},
        Refusal{R"({"rope_type": "llama3", "factor": 8, "low_freq_factor": 1})",
                "high_freq_factor: is missing"},
        Refusal{R"({"rope_type": "llama3", "factor": 8, "low_freq_factor": 4,
                    "high_freq_factor": 4})",
                "high_freq_factor: must be above low_freq_factor"},
        Refusal{R"({"rope_type": "llama3", "factor": 8, "low_freq_factor": 1,
                    "high_freq_factor": 4, "original_max_position_embeddings": 0})",
                "original_max_position_embeddings: expected an integer"},
        Refusal{R"({"rope_type": "llama3", "factor": 8, "low_freq_factor": 1,
                    "high_freq_factor": 4, "beta_fast": 32})",
                "beta_fast: is not a key"}));

INSTANTIATE_TEST_SUITE_P(
    Yarn, RefusedRope,
    ::testing::Values(
        Refusal{R"({"type": "yarn", "original_max_position_embeddings": 2048})",
                "must be at most max_position_embeddings"},
        Refusal{R"({"type": "yarn", "factor": 2, "beta_fast": 1})",
                "beta_fast: must be above beta_slow"},
        Refusal{R"({"type": "yarn", "factor": 2, "beta_slow": 0})", "beta_slow: must be above 0"},
        Refusal{R"({"type": "yarn", "factor": 2, "attention_factor": 0})",
                "attention_factor: must be above 0"},
        Refusal{R"({"type": "yarn", "factor": 2, "mscale": -1, "mscale_all_dim": 1})",
                "mscale: must be from 0"},
        Refusal{R"({"type": "yarn", "factor": 2, "truncate": 1})",
                "truncate: expected true or false"},
        Refusal{R"({"type": "yarn", "factor": 2, "llama_4_scaling_beta": 0.1})",
                "llama_4_scaling_beta: is not a key of rotary embedding of kind yarn"}));

TEST(RopeConfig, YarnNeedsAThetaAboveOne) {
  TinyModel model;
  model.config["rope_theta"] = "1";
  model.config["rope_scaling"] = R"({"type": "yarn", "factor": 2})";
  EXPECT_THAT(error_of([&] { read(model); }), HasSubstr("rope_theta: must be above 1"));
}

TEST(RopeConfig, TheLargestFactorMakesNoMorePositionsThanThereMayBe) {
  EXPECT_EQ(read_with(R"({"type": "yarn", "factor": 1000000})").max_positions, size_t{1} << 22);
}

}  // namespace
}  // namespace espalier::models
