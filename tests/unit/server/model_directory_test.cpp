#include "server/service/model_directory.h"

#include <gmock/gmock.h>

#include <deque>
#include <stdexcept>

#include "fake_model.h"

namespace espalier::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

ServedModel model_of(const std::string& name, ModelPurpose purpose) {
  ServedModel model = fake_served_model();
  model.name = name;
  model.purpose = purpose;
  return model;
}

ServedModel embedder(const std::string& name) {
  ServedModel model = model_of(name, ModelPurpose::kEmbedding);
  model.cannot_rerank = "it has no yes";
  return model;
}

ServedModel reranker(const std::string& name) {
  ServedModel model = model_of(name, ModelPurpose::kReranking);
  model.cannot_embed = "it gives scores";
  return model;
}

class Directory : public testing::Test {
 protected:
  Directory() : scheduler_({&forward_pass_}, {}, nullptr) {}

  ModelDirectory& of(std::vector<ServedModel> models) {
    services_.clear();
    std::vector<const InferenceService*> pointers;
    for (auto& model : models)
      pointers.push_back(&services_.emplace_back(std::move(model), scheduler_));
    return directories_.emplace_back(std::move(pointers));
  }

  /// The name of the chosen one, or the code of the error.
  static std::string choice(const ModelDirectory& models, std::string_view asked, ModelJob job) {
    const auto chosen = models.choose(asked, job);
    return chosen ? (*chosen)->model().name : chosen.error().code;
  }

  FakeForwardPass forward_pass_;
  scheduler::Scheduler scheduler_;
  std::deque<InferenceService> services_;
  std::deque<ModelDirectory> directories_;
};

TEST_F(Directory, TheOnlyModelIsTakenWhateverIsAskedFor) {
  const auto& models = of({embedder("one")});
  for (const char* asked : {"", "one", "gpt-4", "One", "a/b"})
    for (const auto job : {ModelJob::kEmbed, ModelJob::kRerank, ModelJob::kTokenize})
      EXPECT_EQ(choice(models, asked, job), "one") << asked;
}

TEST_F(Directory, ANamedModelIsTaken) {
  const auto& models = of({embedder("a"), embedder("b"), reranker("c")});
  EXPECT_EQ(choice(models, "a", ModelJob::kEmbed), "a");
  EXPECT_EQ(choice(models, "b", ModelJob::kEmbed), "b");
  EXPECT_EQ(choice(models, "c", ModelJob::kRerank), "c");
  EXPECT_EQ(choice(models, "c", ModelJob::kTokenize), "c");
  EXPECT_EQ(choice(models, "B", ModelJob::kEmbed), "model_not_found");
}

TEST_F(Directory, UnknownOrAbsentIsTheOnlyOneThatCan) {
  const auto& models = of({embedder("a"), reranker("c")});
  for (const char* asked : {"", "text-embedding-3-small", "rerank-v3.5"}) {
    EXPECT_EQ(choice(models, asked, ModelJob::kEmbed), "a");
    EXPECT_EQ(choice(models, asked, ModelJob::kRerank), "c");
    EXPECT_EQ(choice(models, asked, ModelJob::kTokenize), "a");
  }
}

TEST_F(Directory, OfThoseThatCanTheOneMadeForItIsTaken) {
  const auto& models =
      of({model_of("a", ModelPurpose::kEmbedding), model_of("c", ModelPurpose::kReranking)});
  EXPECT_EQ(choice(models, "", ModelJob::kEmbed), "a");
  EXPECT_EQ(choice(models, "", ModelJob::kRerank), "c");
  EXPECT_EQ(choice(models, "a", ModelJob::kRerank), "a");
  EXPECT_EQ(choice(models, "c", ModelJob::kEmbed), "c");
}

TEST_F(Directory, SeveralThatCouldAreNamedIn404) {
  const auto& models =
      of({embedder("a"), model_of("b", ModelPurpose::kBoth), reranker("c"), reranker("d")});
  for (const char* asked : {"", "x"}) {
    for (const auto& [job, there] : {std::pair(ModelJob::kEmbed, "`a` and `b`"),
                                     {ModelJob::kRerank, "`b`, `c` and `d`"},
                                     {ModelJob::kTokenize, "`a`, `b`, `c` and `d`"}}) {
      const auto chosen = models.choose(asked, job);
      ASSERT_FALSE(chosen);
      EXPECT_EQ(http_status(chosen.error().kind), 404);
      EXPECT_EQ(chosen.error().code, "model_not_found");
      EXPECT_EQ(chosen.error().param, "model");
      EXPECT_THAT(chosen.error().message, HasSubstr(there));
    }
  }
  EXPECT_THAT(models.choose("x", ModelJob::kEmbed).error().message, HasSubstr("no model `x`"));
  EXPECT_THAT(models.choose("", ModelJob::kEmbed).error().message,
              AllOf(HasSubstr("send as `model`"), Not(HasSubstr("``"))));
}

TEST_F(Directory, ANamedModelThatCannotIs400NamingThoseThatCan) {
  const auto& models = of({embedder("a"), reranker("c"), reranker("d")});
  auto chosen = models.choose("a", ModelJob::kRerank);
  ASSERT_FALSE(chosen);
  EXPECT_EQ(http_status(chosen.error().kind), 400);
  EXPECT_EQ(chosen.error().code, "model_cannot_rerank");
  EXPECT_THAT(chosen.error().message,
              AllOf(HasSubstr("`a` cannot rerank: it has no yes"), HasSubstr("`c` and `d`")));
  chosen = models.choose("c", ModelJob::kEmbed);
  ASSERT_FALSE(chosen);
  EXPECT_EQ(chosen.error().code, "model_cannot_embed");
  EXPECT_THAT(chosen.error().message, HasSubstr("that can: `a`"));
}

TEST_F(Directory, WhereNoneCanItIs400) {
  const auto& models = of({embedder("a"), embedder("b")});
  for (const char* asked : {"", "x", "a"}) {
    const auto chosen = models.choose(asked, ModelJob::kRerank);
    ASSERT_FALSE(chosen);
    EXPECT_EQ(http_status(chosen.error().kind), 400);
    EXPECT_EQ(chosen.error().code, "model_cannot_rerank");
  }
}

TEST_F(Directory, ModelsHaveOtherNamesAndOwners) {
  ServedModel aliased = embedder("fast");
  aliased.other_names = {"Qwen/Qwen3-Embedding-0.6B"};
  const auto& models = of({aliased, embedder("BAAI/large"), embedder("small")});
  for (const char* asked : {"fast", "Qwen/Qwen3-Embedding-0.6B", "Qwen3-Embedding-0.6B",
                            "huggingface/Qwen/Qwen3-Embedding-0.6B", "openai/fast"})
    EXPECT_EQ(choice(models, asked, ModelJob::kEmbed), "fast") << asked;
  for (const char* asked : {"BAAI/large", "large", "openai/large"})
    EXPECT_EQ(choice(models, asked, ModelJob::kEmbed), "BAAI/large") << asked;
  for (const char* asked : {"", "/", "BAAI/", "qwen3-embedding-0.6b"})
    EXPECT_EQ(choice(models, asked, ModelJob::kEmbed), "model_not_found") << asked;
}

TEST_F(Directory, ALastPartThatTwoShareNamesNeither) {
  const auto& models = of({embedder("x/m"), embedder("y/m"), embedder("m2")});
  EXPECT_EQ(choice(models, "y/m", ModelJob::kEmbed), "y/m");
  EXPECT_EQ(choice(models, "m", ModelJob::kEmbed), "model_not_found");
  EXPECT_EQ(choice(models, "z/m", ModelJob::kEmbed), "model_not_found");
}

TEST_F(Directory, AnExactNameGoesBeforeAnothersOtherName) {
  ServedModel other = embedder("b");
  other.other_names = {"a"};
  EXPECT_EQ(choice(of({other, embedder("a")}), "a", ModelJob::kEmbed), "a");
}

TEST_F(Directory, LongNamesAreCutInMessagesAtACharacter) {
  std::string asked;
  for (int i = 0; i < 5000; ++i) asked += "é";
  const auto chosen = of({embedder("a"), embedder("b")}).choose(asked, ModelJob::kEmbed);
  ASSERT_FALSE(chosen);
  EXPECT_LT(chosen.error().message.size(), 300U);
  EXPECT_THAT(chosen.error().message, HasSubstr("é…`"));
}

TEST_F(Directory, TwoOfOneNameAreRefused) {
  EXPECT_THROW(of({embedder("a"), reranker("a")}), std::runtime_error);
  EXPECT_THROW(ModelDirectory({}), std::runtime_error);
}

}  // namespace
}  // namespace espalier::server
