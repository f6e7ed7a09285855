// Models with code of their own that is known, made as jina-embeddings-v5-text-small is published;
// and those that only look like them.
#include "models/known_code.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "models/embedding_config.h"
#include "models/rerank_config.h"
#include "tests/unit/models/tiny_model.h"

namespace espalier::models {
namespace {

using test::error_of;
using test::TemporaryFolder;
using test::TinyModel;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kOwnTransformer[] =
    R"([{"idx": 0, "name": "transformer", "path": "", "type": "custom_st.Transformer",
         "kwargs": ["task", "truncate_dim"]}])";

TinyModel jina() {
  TinyModel model;
  model.config["model_type"] = "\"jina_embeddings_v5\"";
  model.config["architectures"] = R"(["JinaEmbeddingsV5Model"])";
  model.config["task_names"] = R"(["retrieval", "text-matching"])";
  model.config["auto_map"] =
      R"({"AutoConfig": "configuration_jina_embeddings_v5.JinaEmbeddingsV5Config",
          "AutoModel": "modeling_jina_embeddings_v5.JinaEmbeddingsV5Model"})";
  return model;
}

std::string error_of_config(const TinyModel& model) {
  const TemporaryFolder folder;
  folder.write("config.json", model.config_json());
  return error_of([&] { read_model_config(folder.path()); });
}

TEST(KnownCode, ReadAsTheFamilyWhoseDecoderItComputes) {
  const TemporaryFolder folder;
  folder.write("config.json", jina().config_json());
  const ModelConfig config = read_model_config(folder.path());
  EXPECT_EQ(config.model_type, "qwen3");
  EXPECT_EQ(config.architecture, "JinaEmbeddingsV5Model");
  EXPECT_TRUE(config.qk_norm);
  EXPECT_THAT(config.needed_adapters, ElementsAre("retrieval", "text-matching"));
}

TEST(KnownCode, ItsOwnTransformerPoolsTheLastTokenAndNormalises) {
  const TemporaryFolder folder;
  folder.write("config.json", jina().config_json());
  for (const bool has_modules : {false, true}) {
    if (has_modules) folder.write("modules.json", kOwnTransformer);
    const EmbeddingConfig config = read_embedding_config(folder.path());
    EXPECT_EQ(config.pooling, Pooling::kLastToken);
    EXPECT_TRUE(config.normalize);
    EXPECT_TRUE(config.has_pooling_module);
    EXPECT_FALSE(read_rerank_config(folder.path()).says_so());
  }
  folder.write("modules.json", R"([{"path": "", "type": "custom_st.Transformer"},
    {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])");
  EXPECT_THAT(error_of([&] { read_embedding_config(folder.path()); }),
              HasSubstr("is not supported behind the model's own Transformer"));
}

TEST(KnownCode, LoadingWithoutAnAdapterSaysWhichThereAre) {
  const TemporaryFolder folder;
  jina().write(folder);
  EXPECT_THAT(
      error_of([&] { test::load(folder.path()); }),
      AllOf(HasSubstr("config.json: task_names: the model is used with one of its adapters "
                      "(retrieval, text-matching): --lora retrieval; or use a model that has one "
                      "merged, jinaai/jina-embeddings-v5-text-small-retrieval")));
}

TEST(KnownCode, OtherModelsOfTheSameNameAreRefused) {
  TinyModel nano = jina();
  nano.config["is_decoder"] = "false";
  EXPECT_THAT(error_of_config(nano), HasSubstr("is_decoder: false is not supported: the model is a "
                                               "bidirectional encoder"));
  TinyModel changed = jina();
  changed.config["auto_map"] = R"({"AutoModel": "modeling_other.JinaEmbeddingsV5Model"})";
  EXPECT_THAT(error_of_config(changed), HasSubstr("auto_map: AutoModel: "));
  changed.config["auto_map"] = "true";
  EXPECT_THAT(error_of_config(changed), HasSubstr("auto_map: expected a JSON object"));
  TinyModel bidirectional = jina();
  bidirectional.config["is_causal"] = "false";
  EXPECT_THAT(error_of_config(bidirectional), HasSubstr("is_causal: "));
  for (const char* names : {"null", "[]", "\"retrieval\"", "[1]"}) {
    TinyModel nameless = jina();
    nameless.config["task_names"] = names;
    EXPECT_THAT(error_of_config(nameless), HasSubstr("config.json: task_names: ")) << names;
  }
}

TEST(KnownCode, NothingElseIsTakenForIt) {
  TinyModel other = jina();
  other.config["architectures"] = R"(["JinaEmbeddingsV5OmniModel"])";
  EXPECT_THAT(error_of_config(other), HasSubstr("model_type: \"jina_embeddings_v5\" is not "
                                                "supported"));
  other.config["model_type"] = "\"qwen3\"";
  other.config["architectures"] = R"(["JinaEmbeddingsV5Model"])";
  EXPECT_THAT(error_of_config(other), HasSubstr("auto_map: models with code of their own"));
  // Its name for the module means nothing in another model.
  const TemporaryFolder folder;
  TinyModel().write(folder);
  folder.write("modules.json", kOwnTransformer);
  EXPECT_THAT(error_of([&] { read_embedding_config(folder.path()); }),
              HasSubstr("type: \"custom_st.Transformer\" is not supported"));
}

}  // namespace
}  // namespace espalier::models
