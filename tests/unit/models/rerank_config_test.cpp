#include "models/rerank_config.h"

#include <gmock/gmock.h>

#include <string>

#include "tests/unit/models/tiny_model.h"

namespace espalier::models {
namespace {

using test::error_of;
using test::TemporaryFolder;
using test::TinyModel;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RerankConfigTest : public ::testing::Test {
 protected:
  RerankConfig with_config(const std::string& json) const {
    folder_.write("config.json", json);
    return read_rerank_config(folder_.path());
  }
  std::string error_with_config(const std::string& json) const {
    return error_of([&] { with_config(json); });
  }
  std::string error_with_score(const std::string& json) const {
    folder_.write("1_LogitScore/config.json", json);
    return error_of([&] { read_rerank_config(folder_.path()); });
  }

  TemporaryFolder folder_;
};

constexpr char kClassifier[] = R"({"architectures": ["Qwen3ForSequenceClassification"])";

TEST_F(RerankConfigTest, ThePlainLanguageModelSaysNothing) {
  EXPECT_FALSE(
      with_config(R"({"architectures": ["Qwen3ForCausalLM"], "num_labels": 1})").says_so());
  EXPECT_FALSE(read_rerank_config("/nowhere").says_so());
}

TEST_F(RerankConfigTest, LabelsOfAClassifier) {
  const std::string start = kClassifier;
  EXPECT_EQ(with_config(start + R"(, "num_labels": 1})").labels, 1U);
  EXPECT_EQ(with_config(start + R"(, "id2label": {"0": "LABEL_0"}})").labels, 1U);
  const RerankConfig two = with_config(start + R"(, "id2label": {"0": "no", "1": "yes"}})");
  EXPECT_EQ(two.labels, 2U);
  EXPECT_FALSE(two.first_label_is_relevant);
  EXPECT_TRUE(
      with_config(start + R"(, "id2label": {"0": "Yes", "1": "No"}})").first_label_is_relevant);
  EXPECT_EQ(with_config(start + "}").labels, 2U);  // Hugging Face's default
  EXPECT_THAT(error_with_config(start + R"(, "num_labels": 3})"),
              HasSubstr("num_labels: 3 labels are not supported"));
}

TEST_F(RerankConfigTest, ClassifiersMadeOfTokens) {
  const std::string start = kClassifier;
  const RerankConfig config = with_config(
      start + R"(, "classifier_from_token": ["no", "yes"], "is_original_qwen3_reranker": true})");
  EXPECT_EQ(config.labels, 0U);
  EXPECT_THAT(config.classifier_tokens, ElementsAre("no", "yes"));
  EXPECT_TRUE(config.says_so());
  for (const char* method : {"from_2_way_softmax", "no_post_processing"}) {
    EXPECT_TRUE(
        with_config(start + R"(, "classifier_from_token": ["Yes"], "method": ")" + method + "\"}")
            .says_so());
  }
  EXPECT_THAT(error_with_config(start + R"(, "classifier_from_token": ["a"], "method": "other"})"),
              HasSubstr("method: \"other\" is not supported"));
  for (const char* tokens : {"[]", "[1]", "\"yes\"", R"(["a", "b", "c"])"}) {
    EXPECT_THAT(error_with_config(start + R"(, "classifier_from_token": )" + tokens + "}"),
                HasSubstr("classifier_from_token: expected"));
  }
}

TEST_F(RerankConfigTest, LogitScoreAsAModuleOrBesideThem) {
  EXPECT_EQ(error_with_score(R"({"true_token_id": 7, "false_token_id": null})"), "no error");
  RerankConfig config = read_rerank_config(folder_.path());
  ASSERT_TRUE(config.logit_score);
  EXPECT_EQ(config.logit_score->true_token, 7U);
  EXPECT_FALSE(config.logit_score->false_token);
  EXPECT_FALSE(config.from_logit_score_module);

  folder_.write(
      "modules.json",
      R"([{"path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"},
      {"path": "2_Score", "type": "sentence_transformers.cross_encoder.modules.logit_score.LogitScore"}])");
  folder_.write("2_Score/config.json", R"({"true_token_id": 1, "false_token_id": 0})");
  config = read_rerank_config(folder_.path());
  EXPECT_EQ(config.logit_score->true_token, 1U);
  EXPECT_EQ(config.logit_score->false_token, 0U);
  EXPECT_TRUE(config.from_logit_score_module);
}

TEST_F(RerankConfigTest, BrokenLogitScoresAreRefused) {
  EXPECT_THAT(error_with_score("{}"), HasSubstr("1_LogitScore/config.json: true_token_id"));
  for (const char* id : {"-1", "\"yes\"", "1.5", "4294967296", "[1]"}) {
    EXPECT_THAT(error_with_score(R"({"true_token_id": )" + std::string(id) + "}"),
                HasSubstr("true_token_id: expected a token id"));
  }
  EXPECT_THAT(error_with_score(R"({"true_token_id": 1, "module_input_name": "scores"})"),
              HasSubstr("module_input_name"));
}

TEST(RerankHead, ScoresByRowsOfItsClassifier) {
  for (const size_t labels : {1U, 2U}) {
    TinyModel tiny;
    tiny.config["architectures"] = R"(["Qwen3ForSequenceClassification"])";
    tiny.config["num_labels"] = std::to_string(labels);
    tiny.tensors["score.weight"] = test::random_tensor({labels, 32}, 5);
    tiny.tensors["score.bias"] = test::random_tensor({labels}, 6);
    const TemporaryFolder folder;
    tiny.write(folder);
    const Model model = test::load(folder.path());
    ASSERT_TRUE(model.classifier());
    const std::vector<float> hidden = test::random_tensor({32}, 7).values;
    const auto label = [&](size_t row) {
      double sum = tiny.tensors["score.bias"].values[row];
      for (size_t i = 0; i < 32; ++i) {
        sum += static_cast<double>(tiny.tensors["score.weight"].values[row * 32 + i]) * hidden[i];
      }
      return sum;
    };
    const double expected = labels == 1 ? label(0) : label(1) - label(0);
    EXPECT_NEAR(model.classifier()->logit(hidden), expected, 1e-12);
    EXPECT_THROW(model.classifier()->logit(std::vector<float>(31)), std::out_of_range);
  }
}

TEST(RerankHead, AClassifierWithoutItsWeightIsRefused) {
  TinyModel tiny;
  tiny.config["architectures"] = R"(["Qwen3ForSequenceClassification"])";
  const TemporaryFolder folder;
  tiny.write(folder);
  EXPECT_THAT(error_of([&] { test::load(folder.path()); }), HasSubstr("score.weight"));
  tiny.tensors["score.weight"] = test::random_tensor({3, 32}, 5);
  tiny.write(folder);
  EXPECT_THAT(error_of([&] { test::load(folder.path()); }), HasSubstr("score.weight"));
}

}  // namespace
}  // namespace espalier::models
