#include "server/api/embeddings_json.h"

#include <gmock/gmock.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace espalier::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;

EmbeddingsBody parsed_body(std::string_view body) {
  auto result = parse_embeddings_body(body);
  EXPECT_TRUE(result) << result.error().message;
  return result.value_or(EmbeddingsBody{});
}
EmbeddingRequest parsed(std::string_view body) { return parsed_body(body).request; }
EmbeddingEncoding encoding_of(std::string_view body) { return parsed_body(body).encoding; }

/// "param: message" of the error that `body` gives.
std::string error_of(std::string_view body) {
  const auto result = parse_embeddings_body(body);
  if (result) return "no error";
  EXPECT_EQ(http_status(result.error().kind), 400);
  return result.error().param + ": " + result.error().message;
}

std::string array_of(const std::string& entry, size_t count) {
  std::string list = "[" + entry;
  for (size_t i = 1; i < count; ++i) list += "," + entry;
  return list + "]";
}

TEST(EmbeddingRequest, StringIsOneInput) {
  const auto request = parsed(R"({"input":"a text","model":"m","user":7})");
  ASSERT_EQ(request.inputs.size(), 1U);
  EXPECT_EQ(std::get<std::string>(request.inputs[0]), "a text");
  EXPECT_TRUE(request.single);
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(encoding_of(R"({"input":"a text"})"), EmbeddingEncoding::kFloat);
  EXPECT_EQ(request.options.truncation, Truncation::kCutEnd);
  EXPECT_FALSE(request.dimensions || request.options.prompt_name || request.options.instruction);
}

TEST(EmbeddingRequest, ArraysOfStringsIdsAndIdListsAreRead) {
  const auto texts = parsed(R"({"input":["a","b"]})");
  EXPECT_EQ(texts.inputs.size(), 2U);
  EXPECT_FALSE(texts.single);
  const auto ids = parsed(R"({"input":[1,2,3.0]})");
  ASSERT_EQ(ids.inputs.size(), 1U);
  EXPECT_EQ(std::get<TokenIds>(ids.inputs[0]), (TokenIds{1, 2, 3}));
  EXPECT_TRUE(ids.single);
  const auto lists = parsed(R"({"input":[[1],[4294967295]]})");
  ASSERT_EQ(lists.inputs.size(), 2U);
  EXPECT_EQ(std::get<TokenIds>(lists.inputs[1]), (TokenIds{4294967295}));
}

TEST(EmbeddingRequest, JinasObjectsWithATextAreTexts) {
  const auto request = parsed(R"({"input":[{"text":"a"},"b"],"task":null})");
  ASSERT_EQ(request.inputs.size(), 2U);
  EXPECT_EQ(std::get<std::string>(request.inputs[0]), "a");
  EXPECT_EQ(std::get<std::string>(request.inputs[1]), "b");
  EXPECT_FALSE(request.single);
  EXPECT_THAT(error_of(R"({"input":[{"text":""}]})"),
              HasSubstr("input[0]: `input[0]` is an empty"));
  EXPECT_EQ(encoding_of(R"({"input":"a","encoding_type":"binary"})"), EmbeddingEncoding::kBinary);
}

TEST(EmbeddingRequest, JinasObjectsMayHaveOtherMembersButNoPicture) {
  const auto request = parsed(R"({"input":[{"text":"a","image":null,"model":"m","id":7}]})");
  ASSERT_EQ(request.inputs.size(), 1U);
  EXPECT_EQ(std::get<std::string>(request.inputs[0]), "a");
}

TEST(EmbeddingRequest, OptionsAreRead) {
  const auto body = parsed_body(
      R"({"input":"a","encoding_format":"base64","dimensions":64,"prompt_name":"query","truncate":false})");
  const EmbeddingRequest& request = body.request;
  EXPECT_EQ(body.encoding, EmbeddingEncoding::kBase64);
  EXPECT_EQ(request.dimensions, 64U);
  EXPECT_EQ(request.options.prompt_name, "query");
  EXPECT_EQ(request.options.truncation, Truncation::kRefuse);
  EXPECT_EQ(parsed(R"({"input":"a","instruction":""})").options.instruction, "");
}

TEST(EmbeddingRequest, NullOptionsAreAbsent) {
  const auto request = parsed(
      R"({"input":"a","model":null,"encoding_format":null,"dimensions":null,"prompt_name":null,
          "instruction":null,"truncate":null})");
  EXPECT_EQ(request.options.truncation, Truncation::kCutEnd);
  EXPECT_FALSE(request.dimensions);
}

TEST(EmbeddingRequest, NullInputIsAbsentWhereItHasAnotherName) {
  const auto request = parsed(R"({"input":null,"content":"a"})");
  EXPECT_EQ(request.field, "content");
  EXPECT_EQ(parsed(R"({"input":"a","content":null})").field, "input");
}

TEST(EmbeddingRequest, MinusOneIsNoLimitOfTokensHoweverItIsWritten) {
  for (const char* number : {"-1", "-1.0", "-1e0"}) {
    const auto body = std::string(R"({"input":"a","truncate_prompt_tokens":)") + number + "}";
    EXPECT_EQ(parsed(body).options.tokens_max, std::nullopt) << number;
  }
}

TEST(EmbeddingRequest, OtherServersNamesAreRead) {
  EXPECT_EQ(parsed(R"({"content":"a"})").field, "content");
  EXPECT_EQ(encoding_of(R"({"input":"a","embedding_type":"ubinary"})"),
            EmbeddingEncoding::kUbinary);
  EXPECT_EQ(encoding_of(R"({"input":"a","output_dtype":"int8"})"), EmbeddingEncoding::kInt8);
  EXPECT_EQ(parsed(R"({"input":"a","normalized":false})").normalize, false);
  EXPECT_EQ(parsed(R"({"input":"a","task":"retrieval.query"})").options.input_type,
            InputType::kQuery);
  EXPECT_EQ(parsed(R"({"input":"a","input_type":"passage"})").options.input_type,
            InputType::kDocument);
  EXPECT_EQ(parsed(R"({"input":"a","truncate":"START"})").options.truncation,
            Truncation::kCutStart);
  EXPECT_EQ(parsed(R"({"input":"a","truncation_side":"left"})").options.truncation,
            Truncation::kCutStart);
  EXPECT_EQ(parsed(R"({"input":"a","truncate_prompt_tokens":9})").options.tokens_max, 9U);
  EXPECT_EQ(parsed(R"({"input":"a","truncate_prompt_tokens":-1})").options.tokens_max,
            std::nullopt);
  EXPECT_FALSE(parsed(R"({"input":"a","add_special_tokens":false})").options.add_special_tokens);
}

TEST(EmbeddingRequest, WhatWouldChangeTheAnswerAndIsNotServedIsRefused) {
  EXPECT_THAT(error_of(R"({"messages":[{"role":"user","content":"a"}]})"), HasSubstr("messages: "));
  EXPECT_THAT(error_of(R"({"input":"a","late_chunking":true})"), HasSubstr("late_chunking: "));
  EXPECT_EQ(error_of(R"({"input":"a","late_chunking":false})"), "no error");
  EXPECT_THAT(error_of(R"({"input":"a","prompt":"Find: "})"), HasSubstr("prompt: "));
  EXPECT_EQ(error_of(R"({"input":"a","prompt":null,"encoding_format":"not_set"})"), "no error");
  EXPECT_THAT(error_of(R"({"input":"a","encoding_format":"base64","output_dtype":"int8"})"),
              HasSubstr("output_dtype: "));
  EXPECT_THAT(error_of(R"({"input":"a","task":"text-matching"})"), HasSubstr("task: "));
  EXPECT_THAT(error_of(R"({"input":"a","task":"query","input_type":"document"})"),
              HasSubstr("task: "));
  EXPECT_THAT(error_of(R"({"input":"a","truncate_prompt_tokens":-2})"),
              HasSubstr("truncate_prompt_tokens: "));
}

TEST(EmbeddingRequest, InputMustBeThereAndOfAKnownForm) {
  EXPECT_THAT(error_of("{}"), HasSubstr("input: `input` is missing"));
  EXPECT_THAT(error_of(R"({"input":null})"), HasSubstr("not null"));
  EXPECT_THAT(error_of(R"({"input":5})"), HasSubstr("input: `input` must be a string"));
  EXPECT_THAT(error_of(R"({"input":{}})"), HasSubstr("not an object"));
  EXPECT_THAT(error_of(R"({"input":true})"), HasSubstr("not true"));
  EXPECT_THAT(error_of(R"({"input":[null]})"), HasSubstr("input[0]: "));
  EXPECT_THAT(error_of(R"({"input":[{"image":"a"}]})"), HasSubstr("input[0]: "));
  EXPECT_THAT(error_of(R"({"input":[{"text":"a"},{"image":"b"}]})"), HasSubstr("input[1]: "));
  EXPECT_THAT(error_of(R"({"input":[{"text":7}]})"), HasSubstr("input[0]: "));
  EXPECT_THAT(error_of(R"({"input":[{"text":"a","image":"b"}]})"), HasSubstr("input[0]: "));
}

TEST(EmbeddingRequest, EmptyInputsAreNamed) {
  EXPECT_THAT(error_of(R"({"input":""})"), HasSubstr("input: `input` is an empty string"));
  EXPECT_THAT(error_of(R"({"input":[]})"), HasSubstr("empty array"));
  EXPECT_THAT(error_of(R"({"input":["a",""]})"), HasSubstr("input[1]: `input[1]` is an empty"));
  EXPECT_THAT(error_of(R"({"input":[[1],[]]})"), HasSubstr("input[1]: `input[1]` is empty"));
}

TEST(EmbeddingRequest, EntriesMustBeAlike) {
  EXPECT_THAT(error_of(R"({"input":["a",1]})"), HasSubstr("input[1]: "));
  EXPECT_THAT(error_of(R"({"input":[[1],"a"]})"), HasSubstr("input[1]: "));
  EXPECT_THAT(error_of(R"({"input":[1,"a"]})"), HasSubstr("input[1]: "));
  EXPECT_THAT(error_of(R"({"input":[[1,[2]]]})"), HasSubstr("input[0][1]: "));
}

TEST(EmbeddingRequest, TokenIdsAreWholeNumbersOf32Bits) {
  for (const char* id : {"-1", "1.5", "4294967296", "99999999999999999999", "1e30"}) {
    EXPECT_THAT(error_of(std::string(R"({"input":[)") + id + "]}"), HasSubstr("input[0]: ")) << id;
    EXPECT_THAT(error_of(std::string(R"({"input":[[7,)") + id + "]]}"), HasSubstr("input[0][1]: "))
        << id;
  }
}

TEST(EmbeddingRequest, OneListOfIdsIsOneInputHoweverLong) {
  EXPECT_EQ(parsed(R"({"input":)" + array_of("1", 300'000) + "}").inputs.size(), 1U);
  EXPECT_EQ(parsed(R"({"input":)" + array_of("[1]", 3000) + "}").inputs.size(), 3000U);
}

TEST(EmbeddingRequest, OptionsOfWrongTypeOrRangeAreNamed) {
  EXPECT_THAT(error_of(R"({"input":"a","encoding_format":"f16"})"), HasSubstr("encoding_format: "));
  EXPECT_THAT(error_of(R"({"input":"a","encoding_format":1})"), HasSubstr("encoding_format: "));
  for (const char* dimensions : {"0", "-1", "1.5", "\"64\"", "1e300", "99999999999999999999"}) {
    EXPECT_THAT(error_of(std::string(R"({"input":"a","dimensions":)") + dimensions + "}"),
                HasSubstr("dimensions: "))
        << dimensions;
  }
  EXPECT_THAT(error_of(R"({"input":"a","truncate":"yes"})"), HasSubstr("truncate: "));
  EXPECT_THAT(error_of(R"({"input":"a","model":3})"), HasSubstr("model: "));
  EXPECT_THAT(error_of(R"({"input":"a","prompt_name":["q"]})"), HasSubstr("prompt_name: "));
}

TEST(EmbeddingAnswer, IsOpenAisListOfFloats) {
  const EmbeddingAnswer answer{{{0.1F, -1.0F}, {2.0F, 0.0F}}, {}};
  const auto body = render_embeddings(answer, EmbeddingEncoding::kFloat, "a \"model\"", 7);
  ASSERT_TRUE(body);
  EXPECT_THAT(*body, HasSubstr("[0.1,-1]"));
  const json expected = {{"object", "list"},
                         {"model", "a \"model\""},
                         {"usage", {{"prompt_tokens", 7}, {"total_tokens", 7}}},
                         {"data",
                          {{{"object", "embedding"}, {"index", 0}, {"embedding", {0.1, -1}}},
                           {{"object", "embedding"}, {"index", 1}, {"embedding", {2, 0}}}}}};
  EXPECT_EQ(json::parse(*body), expected);
}

TEST(EmbeddingAnswer, Base64TakesThePlaceOfTheArray) {
  const EmbeddingAnswer answer{{{1.0F, -2.0F}}, {}};
  const auto body = render_embeddings(answer, EmbeddingEncoding::kBase64, "m", 1);
  ASSERT_TRUE(body);
  EXPECT_EQ(json::parse(*body)["data"][0]["embedding"], "AACAPwAAAMA=");
}

TEST(EmbeddingAnswer, NonFiniteValuesAreAnInternalError) {
  const EmbeddingAnswer answer{{{1.0F, std::numeric_limits<float>::quiet_NaN()}}, {}};
  for (const auto encoding : {EmbeddingEncoding::kFloat, EmbeddingEncoding::kBase64,
                              EmbeddingEncoding::kInt8, EmbeddingEncoding::kBinary}) {
    const auto body = render_embeddings(answer, encoding, "m", 1);
    ASSERT_FALSE(body);
    EXPECT_EQ(body.error().kind, ErrorKind::kInternal);
  }
}

}  // namespace
}  // namespace espalier::server
