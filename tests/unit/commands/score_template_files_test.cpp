#include "server/commands/score_template_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace espalier::commands {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr char kScores[] =
    "{{ messages | selectattr('role', 'eq', 'query') | map(attribute='content') | first }}|"
    "{{ messages | selectattr('role', 'eq', 'document') | map(attribute='content') | first }}";

class ScoreTemplateFiles : public testing::Test {
 protected:
  ScoreTemplateFiles() {
    std::string name = (fs::temp_directory_path() / "espalier-template-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = name;
  }
  ~ScoreTemplateFiles() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }
  static std::string error_of(const fs::path& file) {
    try {
      named_template(file.string());
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "no error";
  }

  fs::path folder_;
};

TEST_F(ScoreTemplateFiles, WhatIsNoTemplateIsRefusedByName) {
  const auto names_it = AllOf(HasSubstr("--rerank-template"), HasSubstr("neither a readable file"));
  EXPECT_THAT(error_of(folder_), names_it);
  EXPECT_THAT(error_of(folder_ / "missing"), names_it);
  EXPECT_THAT(error_of("/dev/zero"), names_it);
  EXPECT_THAT(error_of(write("huge.txt", std::string((1U << 20U) + 1, 'x'))), names_it);
  EXPECT_THAT(error_of(write("empty.txt", "")), HasSubstr("no place for the document"));
  EXPECT_THAT(error_of(write("huge.jinja", std::string(1U << 20U, 'x'))),
              HasSubstr("so long a template"));
  EXPECT_EQ(error_of(write("bytes.txt", std::string("\xFF\0{query}{document}", 19))), "no error");
  EXPECT_EQ(error_of(write("right.jinja", kScores)), "no error");
}

TEST_F(ScoreTemplateFiles, AModelsOwnIsFoundAmongOthers) {
  write("tokenizer_config.json",
        R"({"chat_template": [{"name": "default", "template": "{{ bos_token }}"},
            {"name": "rerank", "template": ")" +
            std::string(kScores) + R"("}, {"name": 3, "template": 4}, null]})");
  const auto found = models_own_template(folder_);
  ASSERT_TRUE(found);
  EXPECT_THAT(found->name, HasSubstr("rerank"));
}

TEST_F(ScoreTemplateFiles, HostileFilesAreLeftOut) {
  for (const std::string& bytes :
       {std::string(10'000'000, '['), std::string("{\"chat_template\": "), std::string("\xFF"),
        std::string(R"({"chat_template": {"a": 1}})"), std::string("[]"), std::string("null"),
        R"({"chat_template": "'query' 'document' )" + std::string(300'000, 'x') + "\"}"}) {
    write("tokenizer_config.json", bytes);
    EXPECT_FALSE(models_own_template(folder_)) << bytes.substr(0, 40);
  }
  fs::remove(folder_ / "tokenizer_config.json");
  fs::create_directory(folder_ / "chat_template.jinja");
  EXPECT_FALSE(models_own_template(folder_));
}

}  // namespace
}  // namespace espalier::commands
