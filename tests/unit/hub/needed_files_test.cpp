#include "hub/needed_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hub/hub_error.h"

namespace espalier::hub {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

TEST(NeededFiles, SettingsAreThoseOfTheModelsOwnFolder) {
  const std::vector<std::string> files = {"config.json",
                                          "tokenizer.json",
                                          "model.safetensors",
                                          "README.md",
                                          "onnx/config.json",
                                          "modules.json",
                                          "additional_chat_templates/a.jinja",
                                          "additional_chat_templates/b/c.jinja",
                                          "pytorch_model.bin",
                                          "generation_config.json"};
  EXPECT_THAT(settings_files(files, "a/b"),
              UnorderedElementsAre("config.json", "tokenizer.json", "modules.json",
                                   "additional_chat_templates/a.jinja"));
}

TEST(NeededFiles, WhatTheServerCannotDoWithoutIsRequired) {
  EXPECT_THROW(settings_files({"tokenizer.json", "model.safetensors"}, "a/b"), HubError);
  EXPECT_THROW(settings_files({"config.json", "model.safetensors"}, "a/b"), HubError);
  EXPECT_THROW(settings_files({"config.json", "tokenizer.json", "pytorch_model.bin"}, "a/b"),
               HubError);
}

TEST(NeededFiles, WeightsComeLastAndInOneForm) {
  const std::vector<Module> modules = {{"Transformer", ""},
                                       {"Pooling", "1_Pooling"},
                                       {"Dense", "2_Dense"},
                                       {"Normalize", "3_Normalize"}};
  std::vector<std::string> files = {"model.safetensors",         "model.safetensors.index.json",
                                    "1_Pooling/config.json",     "2_Dense/config.json",
                                    "2_Dense/model.safetensors", "2_Dense/pytorch_model.bin",
                                    "2_Dense/more/x.json",       "s1.safetensors"};
  EXPECT_THAT(further_files(files, modules, {"s1.safetensors"}, "a/b"),
              ElementsAre("1_Pooling/config.json", "2_Dense/config.json",
                          "2_Dense/model.safetensors", "model.safetensors"));
  files.erase(files.begin());
  EXPECT_THAT(further_files(files, {}, {"s1.safetensors"}, "a/b"), ElementsAre("s1.safetensors"));
  EXPECT_THROW(further_files(files, {}, {"s2.safetensors"}, "a/b"), HubError);
  EXPECT_THROW(further_files(files, {{"Dense", "4_Dense"}}, {"s1.safetensors"}, "a/b"), HubError);
}

TEST(NeededFiles, AdaptersThatTheModelBringsAlong) {
  std::vector<std::string> files = {"model.safetensors",
                                    "adapters/a/adapter_config.json",
                                    "adapters/a/adapter_model.safetensors",
                                    "adapters/a/README.md",
                                    "adapters/b/adapter_config.json",  // its weights are a pickle
                                    "adapters/b/adapter_model.bin",
                                    "adapters/c/deep/adapter_config.json",
                                    "adapters/c/deep/adapter_model.safetensors",
                                    "adapters/adapter_config.json",
                                    "adapters/adapter_model.safetensors",
                                    "adapter_config.json",
                                    "adapter_model.safetensors"};
  EXPECT_THAT(further_files(files, {}, {}, "a/b"),
              ElementsAre("adapters/a/adapter_config.json", "adapters/a/adapter_model.safetensors",
                          "model.safetensors"));
  for (int i = 0; i < 101; ++i) {
    const std::string folder = "adapters/" + std::to_string(i) + "/";
    files.push_back(folder + "adapter_config.json");
    files.push_back(folder + "adapter_model.safetensors");
  }
  EXPECT_THROW(further_files(files, {}, {}, "a/b"), HubError);
}

TEST(NeededFiles, ARepositoryThatIsAnAdapterSaysSo) {
  try {
    settings_files({"adapter_config.json", "adapter_model.safetensors", "tokenizer.json"}, "a/b");
    FAIL();
  } catch (const HubError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("a/b is a LoRA adapter and no model"));
  }
}

TEST(NeededFiles, ModulesAndShardsMayNotLeadElsewhere) {
  EXPECT_THAT(parse_shards(R"({"weight_map": {"a": "y.safetensors", "b": "x.safetensors",
                                              "c": "y.safetensors"}})",
                           "s"),
              ElementsAre("x.safetensors", "y.safetensors"));
  for (const char* text :
       {"", "[]", "{}", R"({"weight_map": []})", R"({"weight_map": {"a": 1}})",
        R"({"weight_map": {"a": "x.bin"}})", R"({"weight_map": {"a": "../x.safetensors"}})",
        R"({"weight_map": {"a": "/x.safetensors"}})"})
    EXPECT_THROW(parse_shards(text, "s"), HubError) << text;

  const auto modules = parse_modules(
      R"([{"type": "a.b.Pooling", "path": "1_Pooling"}, {"type": "Transformer", "path": "."}])",
      "m");
  ASSERT_EQ(modules.size(), 2U);
  EXPECT_EQ(modules[0].kind, "Pooling");
  EXPECT_EQ(modules[0].folder, "1_Pooling");
  EXPECT_EQ(modules[1].folder, "");
  for (const char* text :
       {"", "{}", "[1]", "[{}]", R"([{"type": "x"}])", R"([{"type": 1, "path": ""}])",
        R"([{"type": "x", "path": "../y"}])", R"([{"type": "x", "path": "/y"}])"})
    EXPECT_THROW(parse_modules(text, "m"), HubError) << text;
}

}  // namespace
}  // namespace espalier::hub
