#include "server/api/score_json.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace espalier::server {
namespace {

using nlohmann::json;
using testing::ElementsAre;

ScoreRequest parsed(std::string_view body) {
  auto result = parse_score_body(body);
  EXPECT_TRUE(result) << result.error().message;
  return result.value_or(ScoreRequest{});
}

std::string refused(std::string_view body) {
  const auto result = parse_score_body(body);
  if (result) return "nothing";
  EXPECT_EQ(http_status(result.error().kind), 400);
  return result.error().param;
}

TEST(ScoreRequest, IsOneAgainstManyOrPairs) {
  const auto one = parsed(R"({"text_1":"q","text_2":["a",{"text":"b"}],"instruction":"i"})");
  EXPECT_THAT(one.queries, ElementsAre("q"));
  EXPECT_THAT(one.documents, ElementsAre("a", "b"));
  EXPECT_EQ(one.instruction, "i");
  EXPECT_EQ(one.query_field, "text_1");
  EXPECT_EQ(one.document_field, "text_2");
  EXPECT_FALSE(one.single_document);
  const auto pairs = parsed(R"({"queries":["q","r"],"documents":["a","b"]})");
  EXPECT_THAT(pairs.queries, ElementsAre("q", "r"));
  EXPECT_EQ(pairs.query_field, "queries");
  EXPECT_TRUE(parsed(R"({"text_1":"q","text_2":"a"})").single_document);
}

TEST(ScoreRequest, LimitsOfTokensAreRead) {
  const auto request = parsed(R"({"text_1":"q","text_2":"a","max_tokens_per_doc":5,
      "max_tokens_per_query":6,"truncate_prompt_tokens":7,"truncate":false,"return_trie":true})");
  EXPECT_EQ(request.document_tokens_max, 5U);
  EXPECT_EQ(request.query_tokens_max, 6U);
  EXPECT_EQ(request.tokens_max, 7U);
  EXPECT_EQ(request.truncation, Truncation::kRefuse);
  EXPECT_TRUE(request.wants_trie);
}

TEST(ScoreRequest, WhatDoesNotPairIsRefused) {
  EXPECT_EQ(refused(R"({"text_1":["q","r"],"text_2":["a","b","c"]})"), "text_1");
  EXPECT_EQ(refused(R"({"queries":["q","r"],"documents":"a"})"), "queries");
  EXPECT_EQ(refused(R"({"text_1":"q","documents":["a"]})"), "text_1");
  EXPECT_EQ(refused(R"({"text_1":"q"})"), "text_2");
  EXPECT_EQ(refused(R"({"documents":["a"]})"), "queries");
  EXPECT_EQ(refused("{}"), "text_1");
}

TEST(ScoreRequest, FieldsOfAWrongTypeAreNamed) {
  const auto with = [](const std::string& member) {
    return refused(R"({"text_1":"q","text_2":["a"],)" + member + "}");
  };
  EXPECT_EQ(refused(R"({"text_1":[],"text_2":["a"]})"), "text_1");
  EXPECT_EQ(refused(R"({"text_1":["q",null],"text_2":["a","b"]})"), "text_1[1]");
  EXPECT_EQ(with(R"("max_tokens_per_doc":0)"), "max_tokens_per_doc");
  EXPECT_EQ(with(R"("max_tokens_per_query":-1)"), "max_tokens_per_query");
  EXPECT_EQ(with(R"("return_trie":1)"), "return_trie");
  EXPECT_EQ(with(R"("prompt_name":"query")"), "prompt_name");
  EXPECT_EQ(with(R"("input_type":"query")"), "input_type");
  EXPECT_EQ(with(R"("instruction":5)"), "instruction");
}

TEST(ScoreRequest, TheFieldThatAsksForACutStartIsNamed) {
  const auto with = [](const std::string& members) {
    return refused(R"({"text_1":"q","text_2":["a"],)" + members + "}");
  };
  EXPECT_EQ(with(R"("truncate":"START")"), "truncate");
  EXPECT_EQ(with(R"("truncation_direction":"left")"), "truncation_direction");
  EXPECT_EQ(with(R"("truncation_side":"left")"), "truncation_side");
  EXPECT_EQ(with(R"("truncate":"END","truncation_side":"left")"), "truncation_side");
  EXPECT_EQ(with(R"("truncate":false,"truncation_side":"left")"), "nothing");
}

TEST(ScoreAnswer, HasTheScoresInTheOrderOfThePairs) {
  const json answer = json::parse(
      render_scores({{0.0, 1e9, -1e9}, ScoreScale::kLogit, {}}, false, "id-1", "m\"", 12));
  EXPECT_EQ(answer["id"], "score-id-1");
  EXPECT_EQ(answer["object"], "list");
  EXPECT_EQ(answer["model"], "m\"");
  EXPECT_GT(answer["created"], 1'600'000'000);
  EXPECT_EQ(answer["data"], json::parse(R"([{"index":0,"object":"score","score":0.5},
      {"index":1,"object":"score","score":1},{"index":2,"object":"score","score":0}])"));
  EXPECT_EQ(answer["usage"],
            json::parse(R"({"prompt_tokens":12,"total_tokens":12,"completion_tokens":0})"));
  EXPECT_FALSE(answer.contains("trie"));
  EXPECT_EQ(json::parse(render_scores({{-2.5}, ScoreScale::kLogit, {}}, true, "i", "m",
                                      1))["data"][0]["score"],
            -2.5);
}

}  // namespace
}  // namespace espalier::server
