#include "models/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/models/tiny_model.h"

namespace espalier::models {
namespace {

using test::error_of;
using test::TemporaryFolder;
using test::TinyModel;
using ::testing::AllOf;
using ::testing::HasSubstr;

ModelConfig read(const TinyModel& model) {
  const TemporaryFolder folder;
  folder.write("config.json", model.config_json());
  return read_model_config(folder.path());
}

std::string error_with(const std::string& key, const std::string& json) {
  TinyModel model;
  model.config[key] = json;
  return error_of([&] { read(model); });
}

std::string error_without(const std::string& key) {
  TinyModel model;
  model.config.erase(key);
  return error_of([&] { read(model); });
}

std::string error_of_text(const std::string& text) {
  const TemporaryFolder folder;
  folder.write("config.json", text);
  return error_of([&] { read_model_config(folder.path()); });
}

TEST(ModelConfig, ReadsTheBundledModel) {
  const ModelConfig config = read_model_config(ESPALIER_MINI_MODEL);
  EXPECT_EQ(config.model_type, "qwen3");
  EXPECT_EQ(config.architecture, "Qwen3ForCausalLM");
  EXPECT_EQ(config.torch_dtype, "bfloat16");
  EXPECT_EQ(config.layers, 4U);
  EXPECT_EQ(config.hidden_size, 256U);
  EXPECT_EQ(config.intermediate_size, 768U);
  EXPECT_EQ(config.query_heads, 4U);
  EXPECT_EQ(config.kv_heads, 2U);
  EXPECT_EQ(config.head_dim, 64U);
  EXPECT_EQ(config.vocab_size, 8192U);
  EXPECT_EQ(config.max_positions, 2048U);
  EXPECT_FLOAT_EQ(config.rms_norm_eps, 1e-6F);
  EXPECT_EQ(config.rope_theta, 10000.0);
  EXPECT_TRUE(config.tied_embeddings);
}

TEST(ModelConfig, HeadDimDefaultsToHiddenSizePerHeadButForQwen3) {
  TinyModel model;
  model.config["head_dim"] = "null";
  EXPECT_EQ(read(model).head_dim, 128U);
  model.set_family("llama");
  model.config.erase("head_dim");
  EXPECT_EQ(read(model).head_dim, 8U);
  model.config["num_attention_heads"] = "6";
  EXPECT_THAT(error_of([&] { read(model); }), HasSubstr("head_dim: is missing"));
}

TEST(ModelConfig, EmbeddingsAreUntiedUnlessTheConfigSaysSo) {
  TinyModel model;
  model.config.erase("tie_word_embeddings");
  EXPECT_FALSE(read(model).tied_embeddings);
}

TEST(ModelConfig, NewerConfigsNameTheDtypeAndRopeOtherwise) {
  TinyModel model;
  model.config.erase("torch_dtype");
  model.config.erase("rope_theta");
  model.config["dtype"] = "\"float16\"";
  model.config["rope_parameters"] = R"({"rope_type": "default", "rope_theta": 1000000})";
  const ModelConfig config = read(model);
  EXPECT_EQ(config.torch_dtype, "float16");
  EXPECT_EQ(config.rope_theta, 1e6);
}

TEST(ModelConfig, AcceptsWhatPublishedFilesCarryButDoNotUse) {
  const std::vector<std::pair<std::string, std::string>> harmless = {
      {"rope_scaling", R"({"rope_type": "default"})"},
      {"rope_scaling", R"({"type": "default"})"},
      {"sliding_window", "4096"},
      {"layer_types", R"(["full_attention", "full_attention"])"},
      {"layer_types", "null"},
      {"quantization_config", "null"},
      {"is_causal", "true"},
      {"architectures", R"(["Qwen3Model"])"},
      {"architectures", R"(["Qwen3ForSequenceClassification"])"},
      {"architectures", "[]"},
      {"architectures", "null"},
      {"use_sliding_window", "null"},
      {"partial_rotary_factor", "1.0"},
      {"some_future_key", R"({"a": [1, 2]})"},
  };
  for (const auto& [key, json] : harmless) EXPECT_EQ(error_with(key, json), "no error") << key;
}

struct Refusal {
  std::string key, json, reason;
};

class RefusedConfig : public ::testing::TestWithParam<Refusal> {};

TEST_P(RefusedConfig, NamesFileKeyAndReason) {
  const auto& [key, json, reason] = GetParam();
  EXPECT_THAT(error_with(key, json),
              AllOf(HasSubstr("config.json: "), HasSubstr(key), HasSubstr(reason)))
      << json;
}

INSTANTIATE_TEST_SUITE_P(
    ChangesResults, RefusedConfig,
    ::testing::Values(
        Refusal{"model_type", "\"gemma3\"",
                "\"gemma3\" is not supported; supported: llama, mistral, qwen2, qwen3"},
        Refusal{"model_type", "\"bidirectional_pplx_qwen3\"", "not supported"},
        Refusal{"model_type", "\"qwen3_moe\"", "not supported"},
        Refusal{"architectures", R"(["Qwen3MoeForCausalLM"])",
                "supported for model_type qwen3: Qwen3ForCausalLM, Qwen3Model, "
                "Qwen3ForSequenceClassification"},
        Refusal{"architectures", R"(["Qwen2ForCausalLM"])", "not supported"},
        Refusal{"architectures", R"(["Qwen3ForTokenClassification"])", "not supported"},
        Refusal{"hidden_act", "\"relu\"", "supported: silu, swish, gelu"},
        Refusal{"hidden_act", "\"quick_gelu\"", "not supported"},
        Refusal{"quantization_config", R"({"bits": 4})", "quantised checkpoints"},
        Refusal{"is_causal", "false", "bidirectional"},
        Refusal{"use_bidirectional_attention", "true", "bidirectional"},
        Refusal{"auto_map", R"({"AutoModel": "modeling.Mine"})", "trust_remote_code"},
        Refusal{"layer_types", R"(["full_attention", "chunked_attention"])",
                "\"chunked_attention\" is not supported"},
        Refusal{"layer_types", R"(["full_attention", "sliding_attention"])",
                "use_sliding_window and sliding_window give no window"},
        Refusal{"layer_types", R"(["full_attention"])", "num_hidden_layers = 2"},
        Refusal{"layer_types", R"([1, 2])", "1 is not supported"},
        Refusal{"mlp_bias", "true", "models of model_type qwen3 have no such biases"}));

INSTANTIATE_TEST_SUITE_P(
    Nonsense, RefusedConfig,
    ::testing::Values(
        Refusal{"model_type", "3", "expected a string, found 3"},
        Refusal{"model_type", "null", "is missing"},
        Refusal{"torch_dtype", "[]", "expected a string, found array of 0"},
        Refusal{"architectures", "\"Qwen3ForCausalLM\"", "expected an array of strings"},
        Refusal{"architectures", "[7]", "expected an array of strings"},
        Refusal{"hidden_size", "0", "expected an integer from 1 to"},
        Refusal{"hidden_size", "-256", "found -256"},
        Refusal{"hidden_size", "256.5", "found 256.5"},
        Refusal{"hidden_size", "1e3", "found 1000.0"},
        Refusal{"hidden_size", "\"256\"", "found \"256\""},
        Refusal{"hidden_size", "true", "found true"},
        Refusal{"hidden_size", "18446744073709551616", "expected an integer"},
        Refusal{"num_hidden_layers", "1000000000", "expected an integer from 1 to 4096"},
        Refusal{"intermediate_size", "{}", "found object of 0"},
        Refusal{"vocab_size", "18446744073709551615", "expected an integer"},
        Refusal{"max_position_embeddings", "1000000000000", "expected an integer"},
        Refusal{"num_key_value_heads", "3", "not a multiple"},
        Refusal{"num_key_value_heads", "8", "not a multiple"},
        Refusal{"head_dim", "7", "needs an even one"},
        Refusal{"head_dim", "1000000", "expected an integer"},
        Refusal{"rms_norm_eps", "0", "above 0"}, Refusal{"rms_norm_eps", "-1e-6", "above 0"},
        Refusal{"rms_norm_eps", "\"1e-6\"", "expected a finite number"},
        Refusal{"rms_norm_eps", "1e-60", "above 0"}, Refusal{"rope_theta", "0", "positive"},
        Refusal{"rope_theta", "[10000]", "expected a finite number"},
        Refusal{"rope_scaling", "\"yarn\"", "expected a JSON object"},
        Refusal{"rope_parameters", "[1]", "expected a JSON object"},
        Refusal{"tie_word_embeddings", "1", "expected true or false, found 1"},
        Refusal{"use_sliding_window", "\"no\"", "expected true or false"},
        Refusal{"attention_bias", "0", "expected true or false"},
        Refusal{"hidden_act", "{}", "expected a string"},
        Refusal{"layer_types", "\"full_attention\"", "expected an array"}));

TEST(ModelConfig, NoValueOfAnyKeyDoesMoreThanBeRefusedByName) {
  TinyModel keys;
  for (const char* key : {"dtype", "layer_types", "rope_parameters", "quantization_config",
                          "is_causal", "auto_map", "partial_rotary_factor"}) {
    keys.config[key];
  }
  size_t refused = 0;
  for (const auto& [key, original] : keys.config) {
    for (const char* json : {"null",
                             "true",
                             "false",
                             "-1",
                             "0",
                             "1",
                             "4294967296",
                             "-9223372036854775808",
                             "18446744073709551615",
                             "1.5",
                             "1e308",
                             "-1e-308",
                             "\"\"",
                             "\"\\u0000\"",
                             "[]",
                             "[[]]",
                             "[null]",
                             "{}",
                             R"({"rope_type": []})",
                             R"({"rope_type": "default", "rope_theta": {}})"}) {
      const std::string error = error_with(key, json);
      if (error == "no error") continue;
      ++refused;
      EXPECT_THAT(error, HasSubstr("config.json: ")) << key << " " << json;
    }
  }
  EXPECT_GT(refused, keys.config.size() * 10);
}

TEST(ModelConfig, EverySizeIsRequired) {
  for (const char* key : {"model_type", "num_hidden_layers", "hidden_size", "intermediate_size",
                          "num_attention_heads", "vocab_size", "max_position_embeddings"}) {
    EXPECT_THAT(error_without(key), HasSubstr(std::string(key) + ": is missing"));
  }
}

TEST(ModelConfig, FilesThatAreNotJsonObjectsAreRefusedByName) {
  EXPECT_THAT(error_of_text(""), HasSubstr("config.json: is not valid JSON"));
  EXPECT_THAT(error_of_text("{\"a\": NaN}"), HasSubstr("is not valid JSON (at byte 7"));
  EXPECT_THAT(error_of_text("{\"a\": \"\xff\"}"), HasSubstr("is not valid JSON"));
  EXPECT_THAT(error_of_text("[]"), HasSubstr("expected a JSON object, found array of 0"));
  EXPECT_THAT(error_of_text("null"), HasSubstr("expected a JSON object, found null"));
  EXPECT_THAT(error_of_text("{\"rope_theta\": 1e999}"), HasSubstr("config.json"));
}

TEST(ModelConfig, DeepNestingIsRefusedNotFollowed) {
  const std::string deep(100000, '[');
  EXPECT_THAT(error_of_text(deep), HasSubstr("nested more than 64 deep"));
  EXPECT_THAT(error_of_text("{\"x\": " + deep), HasSubstr("nested more than 64 deep"));
}

TEST(ModelConfig, LongValuesAreCutInMessages) {
  const std::string error = error_with("model_type", '"' + std::string(1 << 20, 'q') + '"');
  EXPECT_LT(error.size(), 400U);
}

TEST(ModelConfig, AMissingOrIrregularFileIsNamed) {
  const TemporaryFolder folder;
  const auto read_folder = [&] { read_model_config(folder.path()); };
  EXPECT_THAT(error_of(read_folder), HasSubstr("config.json: no such file"));
  std::filesystem::create_directory(folder.path() / "config.json");
  EXPECT_THAT(error_of(read_folder), HasSubstr("config.json: is not a regular file"));
}

}  // namespace
}  // namespace espalier::models
