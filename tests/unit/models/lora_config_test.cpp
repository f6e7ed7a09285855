#include "models/lora_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/unit/models/tiny_model.h"

namespace espalier::models {
namespace {

using test::error_of;
using test::TemporaryFolder;
using ::testing::HasSubstr;

/// Members of an adapter_config.json after those that it must have.
std::string config_with(const std::string& more) {
  return R"({"peft_type": "LORA", "r": 8, "lora_alpha": 16)" + (more.empty() ? "" : ", " + more) +
         "}";
}

LoraConfig read(const std::string& json) {
  const TemporaryFolder folder;
  folder.write("adapter_config.json", json);
  return read_lora_config(folder.path());
}

std::string error_with(const std::string& more) {
  return error_of([&] { read(config_with(more)); });
}

TEST(LoraConfig, ScaleIsAlphaByRankOrItsRoot) {
  const LoraConfig plain = read(config_with(""));
  EXPECT_EQ(plain.rank_of("layers.0.self_attn.q_proj"), 8);
  EXPECT_DOUBLE_EQ(plain.scale_of("layers.0.self_attn.q_proj"), 2.0);
  EXPECT_DOUBLE_EQ(read(config_with(R"("use_rslora": true)")).scale_of("x"), 16 / std::sqrt(8.0));
}

TEST(LoraConfig, TheLongestNameOfAPatternCounts) {
  const LoraConfig config = read(config_with(
      R"("rank_pattern": {"q_proj": 4, "layers.1.self_attn.q_proj": 2, "model.layers.2.mlp.up_proj": 1},
         "alpha_pattern": {"self_attn.q_proj": 12.5})"));
  EXPECT_EQ(config.rank_of("layers.0.self_attn.q_proj"), 4);
  EXPECT_EQ(config.rank_of("layers.1.self_attn.q_proj"), 2);
  EXPECT_EQ(config.rank_of("layers.11.self_attn.q_proj"), 4);
  EXPECT_EQ(config.rank_of("layers.2.mlp.up_proj"), 1);
  EXPECT_EQ(config.rank_of("layers.0.self_attn.faq_proj"), 8);
  EXPECT_DOUBLE_EQ(config.scale_of("layers.1.self_attn.q_proj"), 6.25);
}

TEST(LoraConfig, WhatHasNoEffectPasses) {
  // As published with jina-embeddings-v5-text-nano; its -small has the same keys.
  EXPECT_EQ(error_with(R"("alpha_pattern": {}, "auto_mapping": null, "bias": "none",
    "base_model_name_or_path": "jinaai/jina-embeddings-v5-text-small", "corda_config": null,
    "eva_config": null, "exclude_modules": null, "fan_in_fan_out": false, "inference_mode": true,
    "init_lora_weights": "gaussian", "layer_replication": null, "layers_pattern": null,
    "layers_to_transform": null, "loftq_config": {}, "lora_bias": false, "lora_dropout": 0.1,
    "megatron_config": null, "megatron_core": "megatron.core", "modules_to_save": null,
    "rank_pattern": {}, "revision": null, "target_modules": ["gate_proj", "v_proj"],
    "task_type": "FEATURE_EXTRACTION", "trainable_token_indices": null, "use_dora": false,
    "use_rslora": false)"),
            "no error");
  for (const char* value : {"true", "false", "\"gaussian\"", "\"eva\"", "\"orthogonal\"", "null"}) {
    EXPECT_EQ(error_with(std::string(R"("init_lora_weights": )") + value), "no error") << value;
  }
}

TEST(LoraConfig, SettingsThatChangeResultsAreRefusedByTheirKey) {
  for (const auto& [key, value] : {std::pair{"use_dora", "true"},
                                   {"modules_to_save", R"(["score"])"},
                                   {"bias", "\"all\""},
                                   {"bias", "\"lora_only\""},
                                   {"bias", "1"},
                                   {"lora_bias", "true"},
                                   {"fan_in_fan_out", "true"},
                                   {"layer_replication", "[[0, 2]]"},
                                   {"trainable_token_indices", "[1]"},
                                   {"target_parameters", R"(["a"])"},
                                   {"megatron_config", R"({"a": 1})"},
                                   {"use_bdlora", "{\"a\": 1}"},
                                   {"unheard_of", "1"},
                                   {"unheard_of", "\"x\""}}) {
    EXPECT_THAT(error_with("\"" + std::string(key) + "\": " + value),
                HasSubstr("adapter_config.json: " + std::string(key) + ": "))
        << value;
  }
  for (const char* value : {"pissa", "pissa_niter_16", "olora", "corda", "loftq", "lora_ga", ""}) {
    EXPECT_THAT(error_with(R"("init_lora_weights": ")" + std::string(value) + "\""),
                HasSubstr("init_lora_weights: \"" + std::string(value) +
                          "\" changes the base model's weights; convert the adapter"));
  }
  EXPECT_THAT(error_of([] { read(R"({"peft_type": "IA3", "r": 8, "lora_alpha": 16})"); }),
              HasSubstr("peft_type: \"IA3\" is not supported, \"LORA\" is"));
}

TEST(LoraConfig, NumbersOutOfRangeAreRefusedByTheirKey) {
  const auto error_of_pair = [](const std::string& rank, const std::string& alpha) {
    return error_of([&] { read(R"({"r": )" + rank + R"(, "lora_alpha": )" + alpha + "}"); });
  };
  for (const char* rank : {"0", "-1", "65537", "1.5", "\"8\"", "null", "[]", "1e30"}) {
    EXPECT_THAT(error_of_pair(rank, "16"), HasSubstr("adapter_config.json: r: ")) << rank;
  }
  for (const char* alpha : {"null", "\"16\"", "true", "1e7", "-1e300", "{}"}) {
    EXPECT_THAT(error_of_pair("8", alpha), HasSubstr("adapter_config.json: lora_alpha: ")) << alpha;
  }
  EXPECT_THAT(error_with(R"("use_rslora": "yes")"),
              HasSubstr("use_rslora: expected true or false"));
}

TEST(LoraConfig, PatternsAreNamesNotExpressions) {
  for (const char* name : {"^q_proj$", ".*", "q_proj|k_proj", "(q)", "q proj", "", "\\\\d"}) {
    EXPECT_THAT(error_with(R"("rank_pattern": {")" + std::string(name) + R"(": 4})"),
                HasSubstr("is a regular expression; only names of modules are supported"))
        << name;
  }
  EXPECT_THAT(error_with(R"("rank_pattern": {"q_proj": 0})"), HasSubstr("rank_pattern: q_proj: "));
  EXPECT_THAT(error_with(R"("alpha_pattern": {"q_proj": "a"})"),
              HasSubstr("alpha_pattern: q_proj: "));
  EXPECT_THAT(error_with(R"("alpha_pattern": {"q_proj": null})"),
              HasSubstr("alpha_pattern: q_proj: is missing"));
  EXPECT_THAT(error_with(R"("rank_pattern": [1])"),
              HasSubstr("rank_pattern: expected a JSON object"));
}

TEST(LoraConfig, BrokenFilesAreRefusedByName) {
  for (const char* json : {"", "[]", "{", "1", "\"\\u0000\"", "{\"r\": 8}"}) {
    EXPECT_THAT(error_of([&] { read(json); }), HasSubstr("adapter_config.json: ")) << json;
  }
  const TemporaryFolder empty;
  EXPECT_THAT(error_of([&] { read_lora_config(empty.path()); }),
              HasSubstr("adapter_config.json: no such file"));
}

}  // namespace
}  // namespace espalier::models
