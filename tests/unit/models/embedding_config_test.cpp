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

TEST_F(EmbeddingConfigTest, NewerVersionsNameThePoolingInOneKey) {
  EXPECT_EQ(error_with_pooling(R"({"pooling_mode": "lasttoken"})"), "no error");
  EXPECT_THAT(error_with_pooling(R"({"pooling_mode": "mean"})"),
              HasSubstr("pooling_mode: only last-token pooling"));
  EXPECT_THAT(error_with_pooling(R"({"pooling_mode": ["lasttoken"]})"),
              HasSubstr("expected a string"));
}

TEST_F(EmbeddingConfigTest, EveryOtherPoolingIsRefused) {
  for (const char* mode : {"pooling_mode_cls_token", "pooling_mode_mean_tokens",
                           "pooling_mode_max_tokens", "pooling_mode_weightedmean_tokens"}) {
    const std::string json =
        std::string(R"({"pooling_mode_lasttoken": true, ")") + mode + R"(": true})";
    EXPECT_THAT(error_with_pooling(json),
                AllOf(HasSubstr("1_Pooling/config.json: "), HasSubstr(mode),
                      HasSubstr("only last-token pooling is supported")));
  }
  EXPECT_THAT(error_with_pooling("{}"), HasSubstr("pooling_mode_lasttoken: is not true"));
  EXPECT_THAT(error_with_pooling(R"({"pooling_mode_lasttoken": "yes"})"),
              HasSubstr("expected true or false"));
  EXPECT_THAT(error_with_pooling("[]"), HasSubstr("expected a JSON object"));
}

TEST_F(EmbeddingConfigTest, AMissingPoolingFileIsNamed) {
  EXPECT_THAT(error_with_modules(array(kTransformer, kPooling)),
              HasSubstr("1_Pooling/config.json: no such file"));
}

TEST_F(EmbeddingConfigTest, UnknownModulesAreRefused) {
  folder_.write("1_Pooling/config.json", kLastToken);
  const std::string dense = R"({"path": "2_Dense", "type": "sentence_transformers.models.Dense"})";
  const std::string foreign = R"({"path": "2_Normalize", "type": "my_package.Normalize"})";
  EXPECT_THAT(error_with_modules(array(kTransformer, kPooling, dense)),
              AllOf(HasSubstr("modules.json: module 2: type"), HasSubstr("\"Dense\"")));
  EXPECT_THAT(error_with_modules(array(kTransformer, kPooling, foreign)),
              HasSubstr("my_package.Normalize"));
  EXPECT_THAT(error_with_modules(array(kPooling, kTransformer)), HasSubstr("in this order"));
  EXPECT_THAT(error_with_modules(array(kTransformer, kNormalize)), HasSubstr("in this order"));
}

TEST_F(EmbeddingConfigTest, ModulesThatAreNoPipelineAreRefused) {
  EXPECT_THAT(error_with_modules("{}"), HasSubstr("expected an array of modules"));
  EXPECT_THAT(error_with_modules("[]"), HasSubstr("Transformer and Pooling"));
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
