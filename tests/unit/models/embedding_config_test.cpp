#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "models/embedding_config.h"
#include "tests/unit/models/tiny_model.h"

namespace espalier::models {
namespace {

using test::error_of;
using test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr char kTransformer[] =
    R"({"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"})";
constexpr char kPooling[] =
    R"({"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"})";
constexpr char kNormalize[] =
    R"({"idx": 2, "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"})";
constexpr char kLastToken[] =
    R"({"pooling_mode_lasttoken": true, "pooling_mode_mean_tokens": false, "include_prompt": false})";

std::string array(const std::string& a, const std::string& b) { return "[" + a + ", " + b + "]"; }
std::string array(const std::string& a, const std::string& b, const std::string& c) {
  return "[" + a + ", " + b + ", " + c + "]";
}

/// A folder with the given modules.json and a last-token pooling module.
class EmbeddingConfigTest : public ::testing::Test {
 protected:
  EmbeddingConfig read() const { return read_embedding_config(folder_.path()); }
  std::string error() const {
    return error_of([&] { read(); });
  }
  std::string error_with_modules(const std::string& modules) const {
    folder_.write("modules.json", modules);
    return error();
  }
  std::string error_with_pooling(const std::string& pooling) const {
    folder_.write("modules.json", array(kTransformer, kPooling, kNormalize));
    folder_.write("1_Pooling/config.json", pooling);
    return error();
  }

  TemporaryFolder folder_;
};

TEST_F(EmbeddingConfigTest, ReadsTheBundledModel) {
  const EmbeddingConfig config = read_embedding_config(ESPALIER_MINI_MODEL);
  EXPECT_TRUE(config.normalize);
  EXPECT_TRUE(config.from_sentence_transformers);
  EXPECT_THAT(
      config.prompts,
      UnorderedElementsAre(Pair("document", ""),
                           Pair("query",
                                "Instruct: Given a search query, retrieve relevant passages that "
                                "answer the query\nQuery:")));
  EXPECT_EQ(config.default_prompt_name, "");
}

TEST_F(EmbeddingConfigTest, WithoutFilesLastTokenNormalisedNoPrompts) {
  const EmbeddingConfig config = read();
  EXPECT_TRUE(config.normalize);
  EXPECT_THAT(config.prompts, IsEmpty());
  EXPECT_FALSE(config.from_sentence_transformers);
}

TEST_F(EmbeddingConfigTest, WithoutANormalizeModuleNothingIsNormalised) {
  folder_.write("modules.json", array(kTransformer, kPooling));
  folder_.write("1_Pooling/config.json", kLastToken);
  EXPECT_FALSE(read().normalize);
  folder_.write("modules.json", array(kTransformer, kPooling, kNormalize));
  EXPECT_TRUE(read().normalize);
}

TEST_F(EmbeddingConfigTest, PoolingIsReadInBothSpellings) {
  const auto pooling = [&](const std::string& json) {
    EXPECT_EQ(error_with_pooling(json), "no error") << json;
    return read().pooling;
  };
  EXPECT_EQ(pooling(R"({"pooling_mode": "lasttoken"})"), Pooling::kLastToken);
  EXPECT_EQ(pooling(R"({"pooling_mode": "mean"})"), Pooling::kMean);
  EXPECT_EQ(pooling(R"({"pooling_mode": "cls"})"), Pooling::kFirstToken);
  EXPECT_EQ(pooling(R"({"pooling_mode_lasttoken": true})"), Pooling::kLastToken);
  EXPECT_EQ(pooling(R"({"pooling_mode_mean_tokens": true, "pooling_mode_lasttoken": false})"),
            Pooling::kMean);
  EXPECT_EQ(pooling(R"({"pooling_mode_cls_token": true, "include_prompt": false})"),
            Pooling::kFirstToken);
  EXPECT_TRUE(read().has_pooling_module);
}

TEST_F(EmbeddingConfigTest, EveryOtherPoolingIsRefused) {
  for (const char* mode : {"max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens"}) {
    EXPECT_THAT(error_with_pooling(std::string(R"({"pooling_mode_)") + mode + R"(": true})"),
                AllOf(HasSubstr("1_Pooling/config.json: pooling_mode_"), HasSubstr(mode),
                      HasSubstr("supported: lasttoken, mean and cls")));
  }
  EXPECT_THAT(error_with_pooling(R"({"pooling_mode": "weightedmean"})"),
              HasSubstr("\"weightedmean\" is not supported"));
  EXPECT_THAT(error_with_pooling(R"({"pooling_mode": ["lasttoken"]})"),
              HasSubstr("expected a string"));
  EXPECT_THAT(
      error_with_pooling(R"({"pooling_mode_lasttoken": true, "pooling_mode_mean_tokens": true})"),
      HasSubstr("beside another pooling"));
  EXPECT_THAT(error_with_pooling(R"({"pooling_mode_mean_tokens": true, "include_prompt": false})"),
              HasSubstr("include_prompt: false is not supported with mean pooling"));
  EXPECT_THAT(error_with_pooling("{}"), HasSubstr("pooling_mode: is missing"));
  EXPECT_THAT(error_with_pooling(R"({"pooling_mode_lasttoken": "yes"})"),
              HasSubstr("expected true or false"));
  EXPECT_THAT(error_with_pooling("[]"), HasSubstr("expected a JSON object"));
}

TEST_F(EmbeddingConfigTest, DenseModulesFollowPooling) {
  const auto dense = [](int index) {
    return R"({"path": ")" + std::to_string(index) +
           R"(_Dense", "type": "sentence_transformers.models.Dense"})";
  };
  folder_.write("1_Pooling/config.json", kLastToken);
  folder_.write("2_Dense/config.json",
                R"({"in_features": 8, "out_features": 32, "bias": false,
                    "activation_function": "torch.nn.modules.linear.Identity"})");
  folder_.write("3_Dense/config.json", R"({"in_features": 32, "out_features": 4})");
  folder_.write("modules.json", "[" + std::string(kTransformer) + "," + kPooling + "," + dense(2) +
                                    "," + dense(3) + "," + kNormalize + "]");
  const EmbeddingConfig config = read();
  ASSERT_EQ(config.dense.size(), 2U);
  EXPECT_EQ(config.dense[0].activation, DenseConfig::Activation::kIdentity);
  EXPECT_FALSE(config.dense[0].bias);
  EXPECT_EQ(config.dense[1].activation, DenseConfig::Activation::kTanh);
  EXPECT_TRUE(config.dense[1].bias);
  EXPECT_TRUE(config.normalize);
  EXPECT_EQ(embedding_size(config, 8), 4U);
  EXPECT_THAT(
      error_of([&] { embedding_size(config, 9); }),
      HasSubstr("2_Dense/config.json: in_features: is 8, but what comes before it gives 9"));
  folder_.write("3_Dense/config.json", R"({"in_features": 32, "out_features": 4,
      "activation_function": "torch.nn.modules.activation.GELU"})");
  EXPECT_THAT(error(), AllOf(HasSubstr("3_Dense/config.json: activation_function"),
                             HasSubstr("supported: Identity, Tanh")));
  folder_.write(
      "3_Dense/config.json",
      R"({"in_features": 32, "out_features": 4, "module_input_name": "token_embeddings"})");
  EXPECT_THAT(error(), HasSubstr("module_input_name"));
}

TEST_F(EmbeddingConfigTest, OneDenseModuleIsNotRepeatedWithoutEnd) {
  folder_.write("1_Pooling/config.json", kLastToken);
  folder_.write("2_Dense/config.json", R"({"in_features": 8, "out_features": 8})");
  std::string modules = "[" + std::string(kTransformer) + "," + kPooling;
  for (int i = 0; i < 8; ++i) {
    modules += R"(, {"path": "2_Dense", "type": "sentence_transformers.models.Dense"})";
  }
  folder_.write("modules.json", modules + "]");
  EXPECT_EQ(read().dense.size(), 8U);
  modules += R"(, {"path": "2_Dense", "type": "sentence_transformers.models.Dense"})";
  EXPECT_THAT(error_with_modules(modules + "]"), HasSubstr("module 10: more than 8 Dense"));
}

TEST_F(EmbeddingConfigTest, MatryoshkaDimensionsAreRead) {
  const auto with_list = [&](const std::string& list) {
    folder_.write("config.json",
                  R"({"is_matryoshka": true, "matryoshka_dimensions": )" + list + "}");
  };
  with_list("[512, 32, 64, 32]");
  EXPECT_THAT(read().dimensions, ::testing::ElementsAre(32, 64, 512));
  EXPECT_EQ(embedding_size(read(), 512), 512U);
  EXPECT_THAT(error_of([&] { embedding_size(read(), 511); }),
              HasSubstr("matryoshka_dimensions: 512 is more"));
  for (const char* list : {"[0]", "[-1]", "[1.5]", "\"all\"", "[\"32\"]", "{}", "[4294967296]"}) {
    with_list(list);
    EXPECT_THAT(error(), HasSubstr("matryoshka_dimensions: expected an array")) << list;
  }
  folder_.write("config.json", "{}");
  folder_.write("config_sentence_transformers.json", R"({"truncate_dim": 16})");
  EXPECT_EQ(read().default_dimensions, 16U);
  EXPECT_THAT(error_of([&] { embedding_size(read(), 8); }), HasSubstr("truncate_dim: 16 is more"));
}

TEST_F(EmbeddingConfigTest, AMissingPoolingFileIsNamed) {
  EXPECT_THAT(error_with_modules(array(kTransformer, kPooling)),
              HasSubstr("1_Pooling/config.json: no such file"));
}

TEST_F(EmbeddingConfigTest, UnknownModulesAreRefused) {
  folder_.write("1_Pooling/config.json", kLastToken);
  const std::string words =
      R"({"path": "2_Words", "type": "sentence_transformers.models.WordWeights"})";
  const std::string foreign = R"({"path": "2_Normalize", "type": "my_package.Normalize"})";
  EXPECT_THAT(error_with_modules(array(kTransformer, kPooling, words)),
              AllOf(HasSubstr("modules.json: module 2: type"), HasSubstr("\"WordWeights\"")));
  EXPECT_THAT(error_with_modules(array(kTransformer, kPooling, foreign)),
              HasSubstr("my_package.Normalize"));
  EXPECT_THAT(error_with_modules(array(kPooling, kTransformer)), HasSubstr("Transformer is first"));
  EXPECT_THAT(error_with_modules(array(kTransformer, kNormalize)), HasSubstr("in this order"));
}

TEST_F(EmbeddingConfigTest, ModulesThatAreNoPipelineAreRefused) {
  EXPECT_THAT(error_with_modules("{}"), HasSubstr("expected an array of modules"));
  EXPECT_THAT(error_with_modules("[]"), HasSubstr("expected the module Transformer"));
  EXPECT_THAT(error_with_modules("[" + std::string(kTransformer) + "]"),
              HasSubstr("Transformer and Pooling"));
  EXPECT_THAT(error_with_modules("[1]"), HasSubstr("module 0: expected a JSON object, found 1"));
  EXPECT_THAT(error_with_modules(R"([{"type": 5}])"), HasSubstr("expected a string"));
  EXPECT_THAT(error_with_modules("[{}]"), HasSubstr("type: \"\" is not supported"));
}

TEST_F(EmbeddingConfigTest, AModulePathCannotLeaveTheFolder) {
  for (const char* path : {"", ".", "..", "../other", "/etc", "a/b", "a\\u0000b", "a\\\\b"}) {
    const std::string pooling = std::string(R"({"path": ")") + path +
                                R"(", "type": "sentence_transformers.models.Pooling"})";
    EXPECT_THAT(error_with_modules(array(kTransformer, pooling)),
                HasSubstr("path: expected the name of a folder"))
        << path;
  }
  const std::string elsewhere =
      R"({"path": "0_Transformer", "type": "sentence_transformers.models.Transformer"})";
  EXPECT_THAT(error_with_modules(array(elsewhere, kPooling)),
              HasSubstr("must be in the model folder itself"));
}

TEST_F(EmbeddingConfigTest, PromptsAreReadWithTheirDefault) {
  folder_.write("config_sentence_transformers.json",
                R"({"prompts": {"query": "Q: ", "none": null}, "default_prompt_name": "query"})");
  const EmbeddingConfig config = read();
  EXPECT_THAT(config.prompts, UnorderedElementsAre(Pair("query", "Q: "), Pair("none", "")));
  EXPECT_EQ(config.default_prompt_name, "query");
  EXPECT_TRUE(config.normalize);
}

TEST_F(EmbeddingConfigTest, PromptsOfWrongTypesAreRefused) {
  const auto error_with_prompts = [&](const std::string& json) {
    folder_.write("config_sentence_transformers.json", json);
    return error();
  };
  EXPECT_THAT(error_with_prompts(R"({"prompts": []})"),
              HasSubstr("prompts: expected a JSON object"));
  EXPECT_THAT(error_with_prompts(R"({"prompts": {"query": 1}})"),
              HasSubstr("prompts: query: expected a string"));
  EXPECT_THAT(error_with_prompts(R"({"default_prompt_name": "query"})"),
              HasSubstr("default_prompt_name: \"query\" is not in prompts"));
  EXPECT_THAT(error_with_prompts(R"({"default_prompt_name": 3})"), HasSubstr("expected a string"));
  EXPECT_THAT(error_with_prompts("7"), HasSubstr("expected a JSON object"));
}

TEST_F(EmbeddingConfigTest, LowerCasingIsRefused) {
  folder_.write("sentence_bert_config.json", R"({"max_seq_length": 512, "do_lower_case": true})");
  EXPECT_THAT(error(), HasSubstr("sentence_bert_config.json: do_lower_case"));
  folder_.write("sentence_bert_config.json", R"({"max_seq_length": 512, "do_lower_case": false})");
  EXPECT_EQ(error(), "no error");
}

}  // namespace
}  // namespace espalier::models
