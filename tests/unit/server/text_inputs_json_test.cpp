#include "server/api/text_inputs_json.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace espalier::server {
namespace {

using nlohmann::json;
using testing::ElementsAre;

/// The field at fault and the error's code.
template <typename Parsed>
std::string refused(const Result<Parsed>& result) {
  if (result) return "nothing";
  EXPECT_EQ(http_status(result.error().kind), 400);
  EXPECT_FALSE(result.error().message.empty());
  return result.error().param + " " + result.error().code;
}

std::string inputs_refused(const char* object) {
  return refused(parse_inputs(json::parse(object), "inputs"));
}

ParsedInputs inputs_of(const char* object) {
  const auto result = parse_inputs(json::parse(object), "inputs");
  EXPECT_TRUE(result) << result.error().message;
  return result.value_or(ParsedInputs{});
}

TEST(Inputs, AreTextsOrTokenIdsOneOrMany) {
  EXPECT_THAT(inputs_of(R"({"inputs":"a"})").inputs, ElementsAre(EmbeddingInput("a")));
  EXPECT_TRUE(inputs_of(R"({"inputs":"a"})").single);
  EXPECT_THAT(inputs_of(R"({"inputs":["a","b"]})").inputs,
              ElementsAre(EmbeddingInput("a"), EmbeddingInput("b")));
  EXPECT_FALSE(inputs_of(R"({"inputs":["a"]})").single);
  EXPECT_THAT(inputs_of(R"({"inputs":[5,6.0]})").inputs, ElementsAre(TokenIds{5, 6}));
  EXPECT_TRUE(inputs_of(R"({"inputs":[5]})").single);
  EXPECT_THAT(inputs_of(R"({"inputs":[[5],[6,7]]})").inputs,
              ElementsAre(TokenIds{5}, TokenIds{6, 7}));
  EXPECT_THAT(inputs_of(R"({"inputs":[4294967295]})").inputs, ElementsAre(TokenIds{4294967295}));
}

TEST(Inputs, ThatAreEmptyHaveACodeOfTheirOwn) {
  EXPECT_EQ(inputs_refused(R"({"inputs":""})"), "inputs empty_input");
  EXPECT_EQ(inputs_refused(R"({"inputs":[]})"), "inputs empty_input");
  EXPECT_EQ(inputs_refused(R"({"inputs":["a",""]})"), "inputs[1] empty_input");
  EXPECT_EQ(inputs_refused(R"({"inputs":[[1],[]]})"), "inputs[1] empty_input");
}

TEST(Inputs, OfAWrongTypeAreNamed) {
  for (const char* object : {"{}", R"({"inputs":null})", R"({"inputs":5})", R"({"inputs":{}})"})
    EXPECT_EQ(inputs_refused(object), "inputs ");
  EXPECT_EQ(inputs_refused(R"({"inputs":[null]})"), "inputs[0] ");
  EXPECT_EQ(inputs_refused(R"({"inputs":["a",null]})"), "inputs[1] ");
  EXPECT_EQ(inputs_refused(R"({"inputs":["a",[1]]})"), "inputs[1] ");
  EXPECT_EQ(inputs_refused(R"({"inputs":[1,"a"]})"), "inputs[1] ");
  EXPECT_EQ(inputs_refused(R"({"inputs":[[1],[2,-1]]})"), "inputs[1][1] ");
  EXPECT_EQ(inputs_refused(R"({"inputs":[4294967296]})"), "inputs[0] ");
  EXPECT_EQ(inputs_refused(R"({"inputs":[[[1]]]})"), "inputs[0][0] ");
}

TEST(Texts, AreStringsOrObjectsWithText) {
  const auto texts = parse_texts(json::parse(R"({"d":["a",{"text":"b"},""]})"), "d");
  ASSERT_TRUE(texts);
  EXPECT_THAT(texts->texts, ElementsAre("a", "b", ""));
  EXPECT_FALSE(texts->single);
}

TEST(Texts, MayBeOneStringWhereThatIsSaid) {
  const json one = json::parse(R"({"d":"a"})");
  EXPECT_EQ(refused(parse_texts(one, "d")), "d ");
  const auto texts = parse_texts(one, "d", true);
  ASSERT_TRUE(texts);
  EXPECT_THAT(texts->texts, ElementsAre("a"));
  EXPECT_TRUE(texts->single);
}

TEST(Texts, OfAWrongTypeAreNamed) {
  EXPECT_EQ(refused(parse_texts(json::parse("{}"), "d")), "d ");
  EXPECT_EQ(refused(parse_texts(json::parse(R"({"d":[]})"), "d")), "d empty_input");
  EXPECT_EQ(refused(parse_texts(json::parse(R"({"d":["a",null]})"), "d")), "d[1] ");
  EXPECT_EQ(refused(parse_texts(json::parse(R"({"d":[{"text":5}]})"), "d")), "d[0].text ");
  EXPECT_EQ(refused(parse_texts(json::parse(R"({"d":[{}]})"), "d")), "d[0].text ");
  EXPECT_EQ(refused(parse_text(json::parse(R"({"q":null})"), "q")), "q ");
  EXPECT_EQ(refused(parse_text(json::parse(R"({"q":["a"]})"), "q")), "q ");
  EXPECT_EQ(*parse_text(json::parse(R"({"q":""})"), "q"), "");
}

}  // namespace
}  // namespace espalier::server
