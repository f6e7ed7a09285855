#include "models/weight_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "models/decoder_weights.h"
#include "tests/unit/models/tiny_model.h"

namespace espalier::models {
namespace {

using test::error_of;
using test::random_tensor;
using test::safetensors_bytes;
using test::TemporaryFolder;
using test::TestTensors;
using test::TinyModel;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// What checking the model's tensors against its config complains of.
std::string check_error(const TinyModel& model) {
  const TemporaryFolder folder;
  model.write(folder);
  return error_of(
      [&] { check_tensors(read_model_config(folder.path()), WeightFiles::open(folder.path())); });
}

std::string index_error(const TemporaryFolder& folder, const std::string& index) {
  folder.write("model.safetensors.index.json", index);
  return error_of([&] { WeightFiles::open(folder.path()); });
}

TEST(WeightFiles, NamesWithAndWithoutPrefixAreTheSame) {
  TinyModel model;
  EXPECT_EQ(check_error(model), "no error");
  model.strip_prefix();
  EXPECT_EQ(check_error(model), "no error");
}

TEST(WeightFiles, AMissingTensorIsNamedWithItsFile) {
  TinyModel model;
  model.tensors.erase("model.layers.1.self_attn.q_norm.weight");
  EXPECT_THAT(check_error(model), AllOf(HasSubstr("model.safetensors: "),
                                        HasSubstr("layers.1.self_attn.q_norm.weight: is missing")));
}

TEST(WeightFiles, AMisshapenTensorIsNamedWithBothShapes) {
  TinyModel model;
  model.tensors["model.layers.0.mlp.down_proj.weight"] = random_tensor({48, 32}, 1);
  EXPECT_THAT(check_error(model), HasSubstr("model.layers.0.mlp.down_proj.weight: expected shape "
                                            "[32, 48], found [48, 32]"));
  model.tensors["model.layers.0.mlp.down_proj.weight"] = random_tensor({32 * 48}, 1);
  EXPECT_THAT(check_error(model), HasSubstr("found [1536]"));
}

TEST(WeightFiles, TheEmbeddingTableMustHaveExactlyVocabSizeRows) {
  TinyModel model;
  model.config["vocab_size"] = "41";
  EXPECT_THAT(check_error(model),
              HasSubstr("model.embed_tokens.weight: expected shape [41, 32], found [40, 32]"));
}

TEST(WeightFiles, ATensorOfAnotherDtypeIsNamedWithIt) {
  const TemporaryFolder folder;
  TinyModel model;
  model.write(folder);
  // Same size and name length as F32, so that the header stays as it is.
  std::string bytes = safetensors_bytes(model.tensors);
  const size_t tensor = bytes.find("model.norm.weight");
  const size_t dtype = bytes.rfind("F32", bytes.find("shape", tensor));
  bytes.replace(dtype, 3, "I32");
  folder.write("model.safetensors", bytes);
  EXPECT_THAT(error_of([&] {
                check_tensors(read_model_config(folder.path()), WeightFiles::open(folder.path()));
              }),
              HasSubstr("model.norm.weight: expected dtype F32, F16 or BF16, found I32"));
}

TEST(WeightFiles, TensorsThatWouldChangeResultsAreRefused) {
  const auto error_with = [](const std::string& name) {
    TinyModel model;
    model.tensors[name] = random_tensor({48}, 1);
    return check_error(model);
  };
  EXPECT_THAT(error_with("model.layers.0.self_attn.q_proj.bias"),
              AllOf(HasSubstr("model.safetensors: model.layers.0.self_attn.q_proj.bias"),
                    HasSubstr("is a bias that models of model_type qwen3"),
                    HasSubstr("would change results")));
  EXPECT_THAT(error_with("model.layers.2.input_layernorm.weight"),
              HasSubstr("does not belong to the layers that config.json describes"));
  EXPECT_THAT(error_with("score.weight"),
              HasSubstr("classification heads are for architectures qwen3"));
  EXPECT_THAT(error_with("linear.weight"), HasSubstr("linear.weight: is not a tensor of a qwen3"));
}

TEST(WeightFiles, FrequenciesOfOldFilesAreIgnored) {
  TinyModel model;
  model.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = random_tensor({6}, 1);
  model.tensors["model.rotary_emb.inv_freq"] = random_tensor({6}, 1);
  EXPECT_EQ(check_error(model), "no error");
}

TEST(WeightFiles, ACallerMayReadTensorsOfItsOwn) {
  TinyModel model;
  model.tensors["score.weight"] = random_tensor({1, 32}, 1);
  const TemporaryFolder folder;
  model.write(folder);
  const WeightFiles files = WeightFiles::open(folder.path());
  const ModelConfig config = read_model_config(folder.path());
  EXPECT_NO_THROW(check_tensors(config, files, {"score.weight"}));
  EXPECT_THROW(check_tensors(config, files, {"score.bias"}), std::runtime_error);
}

TEST(WeightFiles, EveryTensorOfAFamilyIsNeeded) {
  for (const char* family : {"qwen2", "llama", "mistral", "qwen3"}) {
    TinyModel model;
    model.set_family(family);
    EXPECT_EQ(check_error(model), "no error");
    const TestTensors all = model.tensors;
    for (const auto& [name, tensor] : all) {
      model.tensors.erase(name);
      EXPECT_THAT(check_error(model), HasSubstr(name.substr(6) + ": ")) << family;
      model.tensors = all;
    }
  }
}

TEST(WeightFiles, BiasesAreNeededWhereTheConfigSaysSoAndRefusedElsewhere) {
  TinyModel model;
  model.set_family("llama");
  model.config["mlp_bias"] = "true";
  EXPECT_THAT(check_error(model), HasSubstr("mlp.gate_proj.bias"));
  for (const char* product : {"mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}) {
    model.add_biases(product);
  }
  EXPECT_EQ(check_error(model), "no error");
  model.config["mlp_bias"] = "false";
  EXPECT_THAT(check_error(model), HasSubstr("is a bias that models of model_type llama"));

  TinyModel qwen2;
  qwen2.set_family("qwen2");
  qwen2.add_biases("self_attn.o_proj");
  EXPECT_THAT(check_error(qwen2), HasSubstr("self_attn.o_proj.bias: is a bias"));
}

TEST(WeightFiles, TheSameTensorUnderBothNamesIsRefused) {
  TinyModel model;
  model.tensors["norm.weight"] = random_tensor({32}, 1);
  EXPECT_THAT(check_error(model),
              AllOf(HasSubstr("norm.weight: is there twice"), HasSubstr("model.norm.weight")));
}

TEST(WeightFiles, AnUntiedModelMayHaveAHeadOrNone) {
  TinyModel model;
  model.config["tie_word_embeddings"] = "false";
  EXPECT_EQ(check_error(model), "no error");
  model.tensors["lm_head.weight"] = random_tensor({40, 32}, 1);
  EXPECT_EQ(check_error(model), "no error");
  model.tensors["lm_head.weight"] = random_tensor({2, 32}, 1);
  EXPECT_THAT(check_error(model), HasSubstr("lm_head.weight: expected shape [40, 32]"));
}

TEST(WeightFiles, ATiedModelsCopyOfTheTableIsNotRead) {
  TinyModel model;
  model.tensors["lm_head.weight"] = random_tensor({40, 32}, 99);
  EXPECT_EQ(check_error(model), "no error");
}

TEST(WeightFiles, AFolderWithoutSafetensorsIsRefused) {
  const TemporaryFolder folder;
  folder.write("pytorch_model.bin", "x");
  EXPECT_THAT(error_of([&] { WeightFiles::open(folder.path()); }),
              HasSubstr("has neither model.safetensors nor model.safetensors.index.json"));
}

TEST(WeightFiles, ShardsAreOneModel) {
  const TemporaryFolder folder;
  folder.write("a.safetensors", safetensors_bytes({{"model.x", random_tensor({3}, 1)}}));
  folder.write("b.safetensors", safetensors_bytes({{"model.y", random_tensor({2, 2}, 2)}}));
  EXPECT_EQ(index_error(folder, R"({"metadata": {"total_size": 28}, "weight_map":
      {"model.x": "a.safetensors", "model.y": "b.safetensors"}})"),
            "no error");
  const WeightFiles weights = WeightFiles::open(folder.path());
  EXPECT_THAT(weights.names(), ElementsAre("x", "y"));
  EXPECT_EQ(weights.tensor({"y", {2, 2}}).view.elements(), 4U);
  EXPECT_THAT(error_of([&] {
                weights.tensor({"z", {1}});
              }),
              HasSubstr("z: is missing in all 2 shards"));
}

TEST(WeightFiles, AnIndexThatPromisesWhatShardsLackIsRefused) {
  const TemporaryFolder folder;
  folder.write("a.safetensors", safetensors_bytes({{"x", random_tensor({3}, 1)}}));
  folder.write("b.safetensors", safetensors_bytes({{"y", random_tensor({2}, 2)}}));
  EXPECT_THAT(
      index_error(folder, R"({"weight_map": {"x": "a.safetensors", "z": "a.safetensors"}})"),
      HasSubstr("index.json: weight_map: z: is not in a.safetensors"));
  EXPECT_THAT(
      index_error(folder, R"({"weight_map": {"x": "a.safetensors", "y": "a.safetensors"}})"),
      HasSubstr("y: is not in a.safetensors"));
  EXPECT_THAT(index_error(folder, R"({"weight_map": {"x": "none.safetensors"}})"),
              HasSubstr("none.safetensors"));
}

TEST(WeightFiles, ATensorInTwoShardsIsRefused) {
  const TemporaryFolder folder;
  folder.write("a.safetensors", safetensors_bytes({{"x", random_tensor({3}, 1)}}));
  folder.write("b.safetensors",
               safetensors_bytes({{"x", random_tensor({3}, 1)}, {"y", random_tensor({3}, 1)}}));
  EXPECT_THAT(
      index_error(folder, R"({"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}})"),
      HasSubstr("b.safetensors: x: is there twice"));
}

TEST(WeightFiles, AMalformedIndexIsRefused) {
  const TemporaryFolder folder;
  EXPECT_THAT(index_error(folder, "{}"), HasSubstr("weight_map: is missing"));
  EXPECT_THAT(index_error(folder, "[]"), HasSubstr("expected a JSON object"));
  EXPECT_THAT(index_error(folder, R"({"weight_map": ["a"]})"),
              HasSubstr("weight_map: expected a JSON object"));
  EXPECT_THAT(index_error(folder, R"({"weight_map": {"x": 1}})"), HasSubstr("expected a string"));
  for (const char* shard : {"", "../a.safetensors", "/a.safetensors", "a.bin", ".safetensors"}) {
    const std::string index = std::string(R"({"weight_map": {"x": ")") + shard + "\"}}";
    EXPECT_THAT(index_error(folder, index),
                HasSubstr("x: expected the name of a .safetensors file in this folder"))
        << shard;
  }
}

TEST(WeightFiles, OneFileWinsOverAnIndexAsWithHuggingFace) {
  const TemporaryFolder folder;
  folder.write("model.safetensors", safetensors_bytes({{"x", random_tensor({3}, 1)}}));
  EXPECT_EQ(index_error(folder, "not even JSON"), "no error");
}

}  // namespace
}  // namespace espalier::models
