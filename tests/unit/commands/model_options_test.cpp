#include "server/commands/model_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>

namespace espalier::commands {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

using Strings = std::vector<std::string>;

TEST(ModelOptionsTest, OneModelTakesABareValueOrOneByItsName) {
  EXPECT_EQ(value_by_model("pooling", {"mean"}, {"mini"}), Strings{"mean"});
  EXPECT_EQ(value_by_model("pooling", {"mini=mean"}, {"mini"}), Strings{"mean"});
  EXPECT_EQ(value_by_model("pooling", {}, {"mini"}), Strings{""});
}

TEST(ModelOptionsTest, SeveralModelsTakeValuesByTheirNames) {
  EXPECT_EQ(value_by_model("pooling", {"b=mean", "org/a=first"}, {"org/a", "b", "c"}),
            (Strings{"first", "mean", ""}));
  EXPECT_THAT(values_by_model("lora", {"a=/x", "b=/y", "a=/z"}, {"a", "b"}),
              ElementsAre(Strings{"/x", "/z"}, Strings{"/y"}));
}

TEST(ModelOptionsTest, ABareValueForSeveralModelsSaysHowToWriteIt) {
  EXPECT_THAT(
      [] {
        value_by_model("pooling", {"mean"}, {"a", "b"});
      },
      ThrowsMessage<std::runtime_error>(HasSubstr("write --pooling NAME=mean, where NAME is one "
                                                  "of a, b")));
}

TEST(ModelOptionsTest, AnUnknownNameListsTheNames) {
  EXPECT_THAT(
      [] {
        value_by_model("pooling", {"c=mean"}, {"a", "b"});
      },
      ThrowsMessage<std::runtime_error>(
          AllOf(HasSubstr("no model is called c"), HasSubstr("a, b"))));
  EXPECT_THAT([] { value_by_model("pooling", {"c=mean"}, {"a"}); },
              ThrowsMessage<std::runtime_error>(HasSubstr("there is a")));
}

TEST(ModelOptionsTest, AValueMayBeAPathWithAnEqualsSign) {
  const auto folder = std::filesystem::path(::testing::TempDir()) /
                      ("espalier_lora_" + std::to_string(::getpid()) + "=1");
  EXPECT_THROW(value_by_model("lora", {folder.string()}, {"a"}), std::runtime_error);
  std::filesystem::create_directory(folder);
  EXPECT_EQ(value_by_model("lora", {folder.string()}, {"a"}), Strings{folder.string()});
  std::filesystem::remove(folder);
  EXPECT_EQ(value_by_model("lora", {"a=/x=y"}, {"a"}), Strings{"/x=y"});
  EXPECT_EQ(value_by_model("lora", {"a=b=/x"}, {"a=b"}), Strings{"/x"});
}

TEST(ModelOptionsTest, WhatAModelTakesOnceIsNotGivenTwice) {
  EXPECT_THAT(
      [] {
        value_by_model("pooling", {"b=mean", "b=last"}, {"a", "b"});
      },
      ThrowsMessage<std::runtime_error>(AllOf(HasSubstr("--pooling: b"), HasSubstr("mean, last"))));
  EXPECT_THAT(
      [] {
        value_by_model("pooling", {"b="}, {"a", "b"});
      },
      ThrowsMessage<std::runtime_error>(HasSubstr("expected a value after the =")));
}

TEST(ModelOptionsTest, AreReadForEachModel) {
  Options options;
  options.default_prompt_names = {"b=query"};
  const auto models = model_options(options, {"a", "b"});
  ASSERT_EQ(models.size(), 2U);
  EXPECT_EQ(models[0].default_prompt_name, "");
  EXPECT_EQ(models[1].default_prompt_name, "query");
}

}  // namespace
}  // namespace espalier::commands
