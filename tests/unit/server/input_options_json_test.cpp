#include "server/api/input_options_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace espalier::server {
namespace {

using nlohmann::json;

InputOptions parsed(const char* object) {
  const auto options = parse_input_options(json::parse(object));
  EXPECT_TRUE(options) << object << ": " << options.error().message;
  return options.value_or(InputOptions{});
}

/// The field that is refused.
std::string refused(const char* object) {
  const auto options = parse_input_options(json::parse(object));
  if (options) return "nothing";
  EXPECT_EQ(http_status(options.error().kind), 400);
  EXPECT_NE(options.error().message.find("`" + options.error().param + "`"), std::string::npos)
      << options.error().message;
  return options.error().param;
}

TEST(InputOptions, AbsentAndNullAreTheDefaults) {
  for (const char* object :
       {"{}", R"({"prompt_name":null,"instruction":null,"input_type":null,"task":null,
                  "truncate":null,"truncation_direction":null,"truncation_side":null,
                  "truncate_prompt_tokens":null,"add_special_tokens":null})"}) {
    const auto options = parsed(object);
    EXPECT_FALSE(options.prompt_name || options.instruction || options.input_type ||
                 options.tokens_max);
    EXPECT_EQ(options.truncation, Truncation::kCutEnd);
    EXPECT_TRUE(options.add_special_tokens);
  }
}

TEST(InputOptions, TypesHaveThePeersNames) {
  for (const char* name : {"search_query", "query", "retrieval.query"}) {
    EXPECT_EQ(parsed((R"({"input_type":")" + std::string(name) + "\"}").c_str()).input_type,
              InputType::kQuery);
    EXPECT_EQ(parsed((R"({"task":")" + std::string(name) + "\"}").c_str()).input_type,
              InputType::kQuery);
  }
  for (const char* name : {"search_document", "document", "passage", "retrieval.passage"})
    EXPECT_EQ(parsed((R"({"input_type":")" + std::string(name) + "\"}").c_str()).input_type,
              InputType::kDocument);
  EXPECT_EQ(parsed(R"({"task":"separation"})").input_type, InputType::kClustering);
  EXPECT_EQ(parsed(R"({"input_type":"query","task":"retrieval.query"})").input_type,
            InputType::kQuery);
  EXPECT_EQ(refused(R"({"input_type":"query","task":"retrieval.passage"})"), "task");
  EXPECT_EQ(refused(R"({"input_type":"Query"})"), "input_type");
  EXPECT_EQ(refused(R"({"task":"text-matching!"})"), "task");
  EXPECT_EQ(refused(R"({"input_type":5})"), "input_type");
}

TEST(InputOptions, TruncationIsABooleanOrCoheresWord) {
  EXPECT_EQ(parsed(R"({"truncate":true})").truncation, Truncation::kCutEnd);
  EXPECT_EQ(parsed(R"({"truncate":false})").truncation, Truncation::kRefuse);
  EXPECT_EQ(parsed(R"({"truncate":"NONE"})").truncation, Truncation::kRefuse);
  EXPECT_EQ(parsed(R"({"truncate":"start"})").truncation, Truncation::kCutStart);
  EXPECT_EQ(parsed(R"({"truncate":"END"})").truncation, Truncation::kCutEnd);
  for (const char* object : {R"({"truncate":"Both"})", R"({"truncate":0})", R"({"truncate":[]})"})
    EXPECT_EQ(refused(object), "truncate");
}

TEST(InputOptions, DirectionSaysWhichEndIsCut) {
  for (const char* object :
       {R"({"truncation_direction":"Left"})", R"({"truncation_side":"left"})",
        R"({"truncate":true,"truncation_direction":"left"})", R"({"truncation_side":"LEFT"})"}) {
    EXPECT_EQ(parsed(object).truncation, Truncation::kCutStart) << object;
  }
  EXPECT_EQ(parsed(R"({"truncation_direction":"Right"})").truncation, Truncation::kCutEnd);
  EXPECT_EQ(parsed(R"({"truncate":false,"truncation_direction":"Left"})").truncation,
            Truncation::kRefuse);
  EXPECT_EQ(refused(R"({"truncation_direction":"up"})"), "truncation_direction");
  EXPECT_EQ(refused(R"({"truncation_side":true})"), "truncation_side");
}

TEST(InputOptions, TokensAreANumberOrMinusOne) {
  EXPECT_EQ(parsed(R"({"truncate_prompt_tokens":7})").tokens_max, 7U);
  EXPECT_FALSE(parsed(R"({"truncate_prompt_tokens":-1})").tokens_max);
  for (const char* object :
       {R"({"truncate_prompt_tokens":0})", R"({"truncate_prompt_tokens":-2})",
        R"({"truncate_prompt_tokens":1.5})", R"({"truncate_prompt_tokens":"7"})",
        R"({"truncate_prompt_tokens":18446744073709551615})",  // as a signed number, -1
        R"({"truncate_prompt_tokens":1e300})"}) {
    EXPECT_EQ(refused(object), "truncate_prompt_tokens") << object;
  }
}

TEST(InputOptions, OfAWrongTypeAreNamed) {
  EXPECT_EQ(refused(R"({"prompt_name":5})"), "prompt_name");
  EXPECT_EQ(refused(R"({"instruction":["a"]})"), "instruction");
  EXPECT_EQ(refused(R"({"add_special_tokens":1})"), "add_special_tokens");
  EXPECT_FALSE(parsed(R"({"add_special_tokens":false})").add_special_tokens);
}

}  // namespace
}  // namespace espalier::server
