// What each family's config.json means, beside what they share (model_config_test.cpp).
#include "models/families/family.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/models/tiny_model.h"

namespace espalier::models {
namespace {

using engine::ActivationFunction;
using test::error_of;
using test::TemporaryFolder;
using test::TinyModel;
using ::testing::HasSubstr;

ModelConfig read(const TinyModel& model) {
  const TemporaryFolder folder;
  folder.write("config.json", model.config_json());
  return read_model_config(folder.path());
}

TinyModel of_family(const std::string& model_type) {
  TinyModel model;
  model.set_family(model_type);
  return model;
}

TEST(Families, AreFoundByModelType) {
  EXPECT_EQ(family_names(), "llama, mistral, qwen2, qwen3");
  ASSERT_NE(find_family("qwen2"), nullptr);
  EXPECT_EQ(find_family("qwen2")->class_prefix, "Qwen2");
  EXPECT_EQ(find_family("qwen"), nullptr);
  EXPECT_EQ(find_family(""), nullptr);
}

TEST(Families, TakeTheirOwnClassesAlone) {
  for (const std::string model_type : {"llama", "mistral", "qwen2", "qwen3"}) {
    const std::string prefix(find_family(model_type)->class_prefix);
    TinyModel model = of_family(model_type);
    for (const char* suffix : {"ForCausalLM", "Model", "ForSequenceClassification"}) {
      model.config["architectures"] = "[\"" + prefix + suffix + "\"]";
      EXPECT_EQ(read(model).architecture, prefix + suffix);
    }
    for (const std::string other : {"GemmaModel", "LlamaBidirectionalModel", "MistralForCausal"}) {
      model.config["architectures"] = "[\"" + other + "\"]";
      EXPECT_THAT(error_of([&] { read(model); }), HasSubstr(prefix + "ForCausalLM"));
    }
  }
}

TEST(Families, NormsAndBiasesAreTheFamilys) {
  const auto shape = [](const ModelConfig& c) {
    return std::string(c.qk_norm ? "n" : "-") + (c.qkv_bias ? "q" : "-") +
           (c.output_bias ? "o" : "-") + (c.mlp_bias ? "m" : "-");
  };
  EXPECT_EQ(shape(read(of_family("qwen3"))), "n---");
  EXPECT_EQ(shape(read(of_family("qwen2"))), "-q--");
  EXPECT_EQ(shape(read(of_family("llama"))), "----");
  EXPECT_EQ(shape(read(of_family("mistral"))), "----");

  TinyModel model = of_family("llama");
  model.config["attention_bias"] = "true";
  EXPECT_EQ(shape(read(model)), "-qo-");
  model.config["mlp_bias"] = "true";
  EXPECT_EQ(shape(read(model)), "-qom");
  model = of_family("qwen3");
  model.config["attention_bias"] = "true";
  EXPECT_EQ(shape(read(model)), "nqo-");
  model = of_family("qwen2");  // its published code does not look
  model.config["attention_bias"] = "true";
  EXPECT_EQ(shape(read(model)), "-q--");
  model.config["mlp_bias"] = "true";
  EXPECT_THAT(error_of([&] { read(model); }), HasSubstr("mlp_bias: models of model_type qwen2"));
  model = of_family("mistral");
  model.config["attention_bias"] = "true";
  EXPECT_THAT(error_of([&] { read(model); }), HasSubstr("attention_bias: models of model_type"));
}

TEST(Families, KeyHeadsDefaultToQueryHeadsAndMistralsToEight) {
  for (const char* model_type : {"llama", "qwen2", "qwen3"}) {
    TinyModel model = of_family(model_type);
    model.config.erase("num_key_value_heads");
    EXPECT_EQ(read(model).kv_heads, 4U);
  }
  TinyModel model = of_family("mistral");
  model.config["num_attention_heads"] = "16";
  model.config.erase("num_key_value_heads");
  EXPECT_EQ(read(model).kv_heads, 8U);
  model.config["num_key_value_heads"] = "null";
  EXPECT_EQ(read(model).kv_heads, 16U);
}

TEST(Families, ActivationsHaveTheNamesOfHuggingFace) {
  const std::pair<const char*, ActivationFunction> names[] = {
      {"silu", ActivationFunction::kSilu},
      {"swish", ActivationFunction::kSilu},
      {"gelu", ActivationFunction::kGelu},
      {"gelu_new", ActivationFunction::kGeluTanh},
      {"gelu_fast", ActivationFunction::kGeluTanh},
      {"gelu_pytorch_tanh", ActivationFunction::kGeluTanh}};
  for (const auto& [name, activation] : names) {
    TinyModel model = of_family("llama");
    model.config["hidden_act"] = '"' + std::string(name) + '"';
    EXPECT_EQ(read(model).activation, activation) << name;
  }
  TinyModel model = of_family("llama");
  model.config.erase("hidden_act");
  EXPECT_EQ(read(model).activation, ActivationFunction::kSilu);
}

/// The tiny model has 1024 positions and two layers.
struct WindowCase {
  std::string model_type, sliding_window, use_sliding_window, max_window_layers, layer_types;
  size_t window;
};

class Windows : public ::testing::TestWithParam<WindowCase> {};

TEST_P(Windows, LimitThePositions) {
  const WindowCase& c = GetParam();
  TinyModel model = of_family(c.model_type);
  const auto set = [&](const std::string& key, const std::string& json) {
    model.config.erase(key);
    if (!json.empty()) model.config[key] = json;
  };
  set("sliding_window", c.sliding_window);
  set("use_sliding_window", c.use_sliding_window);
  set("max_window_layers", c.max_window_layers);
  set("layer_types", c.layer_types);
  const ModelConfig config = read(model);
  EXPECT_EQ(config.sliding_window, c.window);
  EXPECT_EQ(config.rope_positions, 1024U);
  EXPECT_EQ(config.max_positions, c.window == 0 || c.window > 1024 ? 1024 : c.window);
  EXPECT_THAT(limit_of_positions(config),
              HasSubstr(config.max_positions < 1024 ? "sliding_window" : "max_position_embed"));
}

constexpr char kOneSlides[] = R"(["full_attention", "sliding_attention"])";
constexpr char kNoneSlides[] = R"(["full_attention", "full_attention"])";

INSTANTIATE_TEST_SUITE_P(
    OfFamilies, Windows,
    ::testing::Values(WindowCase{"mistral", "512", "", "", "", 512},
                      WindowCase{"mistral", "null", "", "", "", 0},
                      WindowCase{"mistral", "", "", "", "", 4096},
                      WindowCase{"mistral", "8192", "", "", "", 8192},
                      // Published code has the window in every layer, whatever this says.
                      WindowCase{"mistral", "512", "", "", kNoneSlides, 512},
                      WindowCase{"llama", "", "", "", "", 0},
                      WindowCase{"llama", "300", "", "", "", 300},
                      WindowCase{"qwen2", "512", "false", "0", "", 0},
                      WindowCase{"qwen2", "512", "true", "1", "", 512},
                      WindowCase{"qwen2", "512", "true", "0", "", 512},
                      WindowCase{"qwen2", "512", "true", "2", "", 0},
                      WindowCase{"qwen2", "512", "true", "", "", 0},  // from layer 28
                      WindowCase{"qwen2", "null", "true", "0", "", 0},
                      WindowCase{"qwen2", "", "true", "0", "", 4096},
                      WindowCase{"qwen3", "512", "true", "0", kNoneSlides, 0},
                      WindowCase{"qwen3", "512", "true", "2", kOneSlides, 512},
                      WindowCase{"qwen3", "512", "", "0", "", 0}));

TEST(Families, WindowsThatAreNoSizesAreRefused) {
  for (const char* json : {"0", "-1", "1.5", "\"4096\"", "true", "[]", "4294967297"}) {
    TinyModel model = of_family("mistral");
    model.config["sliding_window"] = json;
    EXPECT_THAT(error_of([&] { read(model); }), HasSubstr("sliding_window: expected an integer"));
  }
  TinyModel model = of_family("qwen2");
  model.config["use_sliding_window"] = "true";
  model.config["sliding_window"] = "512";
  model.config["max_window_layers"] = "-1";
  EXPECT_THAT(error_of([&] { read(model); }), HasSubstr("max_window_layers: expected an integer"));
}

}  // namespace
}  // namespace espalier::models
