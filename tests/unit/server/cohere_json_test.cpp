#include "server/api/cohere_json.h"

#include <gmock/gmock.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace espalier::server {
namespace {

using nlohmann::json;
using testing::ElementsAre;

CohereEmbedBody parsed(std::string_view body, CohereVersion version = CohereVersion::kV2) {
  auto result = parse_cohere_embed(body, version);
  EXPECT_TRUE(result) << result.error().message;
  return result.value_or(CohereEmbedBody{});
}

std::string refused(std::string_view body, CohereVersion version = CohereVersion::kV2) {
  const auto result = parse_cohere_embed(body, version);
  if (result) return "nothing";
  EXPECT_EQ(http_status(result.error().kind), 400);
  return result.error().param;
}

TEST(CohereRequest, TextsAndOptionsAreRead) {
  const auto body = parsed(R"({"texts":["a","b"],"input_type":"search_query","truncate":"START",
      "embedding_types":["float","int8","float"],"output_dimension":64,"max_tokens":9,
      "model":"embed-v4.0"})");
  EXPECT_THAT(body.request.inputs, ElementsAre(EmbeddingInput("a"), EmbeddingInput("b")));
  EXPECT_EQ(body.request.input_name(1), "texts[1]");
  EXPECT_EQ(body.request.options.input_type, InputType::kQuery);
  EXPECT_EQ(body.request.options.truncation, Truncation::kCutStart);
  EXPECT_EQ(body.request.options.tokens_max, 9U);
  EXPECT_STREQ(body.request.options.tokens_max_field, "max_tokens");
  EXPECT_EQ(body.request.dimensions, 64U);
  EXPECT_STREQ(body.request.dimensions_field, "output_dimension");
  EXPECT_EQ(body.request.model, "embed-v4.0");
  EXPECT_THAT(body.encodings, ElementsAre(EmbeddingEncoding::kFloat, EmbeddingEncoding::kInt8));
}

TEST(CohereRequest, MemoryForEachTypeAndForTheTextsIsAskedFor) {
  EXPECT_TRUE(parsed(R"({"texts":["a"]})").request.returns_texts);
  const std::string all =
      R"({"texts":["a"],"embedding_types":["float","base64","int8","uint8","binary","ubinary"]})";
  size_t most = 0;
  for (const char* const name : {"float", "base64", "int8", "uint8", "binary", "ubinary"})
    most += text_bytes_per_value(*embedding_encoding(name));
  EXPECT_EQ(parsed(all).request.text_bytes_per_value, most);
  EXPECT_EQ(parsed(R"({"texts":["a"]})", CohereVersion::kV1).request.text_bytes_per_value,
            text_bytes_per_value(EmbeddingEncoding::kFloat));
}

TEST(CohereRequest, WithoutTypesV1HasPlainFloatsAndV2ThoseByName) {
  EXPECT_THAT(parsed(R"({"texts":["a"]})").encodings, ElementsAre(EmbeddingEncoding::kFloat));
  EXPECT_THAT(parsed(R"({"texts":["a"]})", CohereVersion::kV1).encodings, ElementsAre());
  EXPECT_THAT(parsed(R"({"texts":["a"],"embedding_types":null})", CohereVersion::kV1).encodings,
              ElementsAre());
}

TEST(CohereRequest, ContentsAreTheirTextPartsALineEach) {
  const auto body = parsed(R"({"inputs":[{"content":[{"type":"text","text":"a"},{"text":"b"}]},
                                         {"content":[{"type":"text","text":"c"}]}]})");
  EXPECT_THAT(body.request.inputs, ElementsAre(EmbeddingInput("a\nb"), EmbeddingInput("c")));
  EXPECT_EQ(body.request.input_name(1), "inputs[1]");
}

TEST(CohereRequest, ContentsOfAWrongTypeAreNamed) {
  EXPECT_EQ(refused(R"({"inputs":[]})"), "inputs");
  EXPECT_EQ(refused(R"({"inputs":"a"})"), "inputs");
  EXPECT_EQ(refused(R"({"inputs":["a"]})"), "inputs[0].content");
  EXPECT_EQ(refused(R"({"inputs":[{"content":[]}]})"), "inputs[0].content");
  EXPECT_EQ(refused(R"({"inputs":[{"content":"a"}]})"), "inputs[0].content");
  for (const char* part : {R"({"type":"image_url","text":"a"})", R"({"type":"text"})", "null", "5",
                           R"({"type":null,"text":"a"})", R"({"text":5})", R"({"type":5})"}) {
    EXPECT_EQ(refused(R"({"inputs":[{"content":[{"text":"a"},)" + std::string(part) + "]}]}"),
              "inputs[0].content[1]")
        << part;
  }
  EXPECT_EQ(refused(R"({"inputs":[{"content":[{"text":""}]}]})"), "inputs[0].content");
}

TEST(CohereRequest, WhatContradictsItselfIsRefused) {
  EXPECT_EQ(refused(R"({"texts":["a"],"inputs":[{"content":[{"text":"a"}]}]})"), "inputs");
  EXPECT_EQ(refused(R"({"texts":["a"],"images":["data:image/png;base64,AA"]})"), "images");
  EXPECT_EQ(refused(R"({"inputs":[{"content":[{"text":"a"}]}]})", CohereVersion::kV1), "texts");
}

TEST(CohereRequest, OptionsOfAWrongTypeAreNamed) {
  EXPECT_EQ(refused(R"({"texts":[]})"), "texts");
  EXPECT_EQ(refused(R"({"texts":["a",""]})"), "texts[1]");
  for (const char* types : {"[]", "\"float\"", "[5]", "[\"int4\"]", "{}", "[\"float\",null]"})
    EXPECT_EQ(refused(R"({"texts":["a"],"embedding_types":)" + std::string(types) + "}"),
              "embedding_types")
        << types;
  for (const char* number : {"0", "-1", "1.5", "\"64\"", "1e300"}) {
    const auto fields = std::string(number) + "}";
    EXPECT_EQ(refused(R"({"texts":["a"],"output_dimension":)" + fields), "output_dimension");
    EXPECT_EQ(refused(R"({"texts":["a"],"max_tokens":)" + fields), "max_tokens");
  }
  EXPECT_EQ(refused(R"({"texts":["a"],"model":5})"), "model");
}

TEST(CohereAnswer, HoldsEveryEncodingByItsName) {
  auto body = parsed(R"({"texts":["a","\"b\""],"embedding_types":["float","ubinary"]})");
  const EmbeddingAnswer answer{{{0.5F, -0.5F}, {1, 1}}, {}};
  const auto text = render_cohere_embed(answer, body, CohereVersion::kV2, "id-1", 7);
  ASSERT_TRUE(text);
  EXPECT_EQ(json::parse(*text), json::parse(R"({"id":"id-1",
      "embeddings":{"float":[[0.5,-0.5],[1,1]],"ubinary":[[128],[192]]},"texts":["a","\"b\""],
      "response_type":"embeddings_by_type",
      "meta":{"api_version":{"version":"2"},"billed_units":{"input_tokens":7}}})"));
}

TEST(CohereAnswer, OfV1IsAPlainArray) {
  const auto body = parsed(R"({"texts":[[5,6]]})", CohereVersion::kV1);
  const auto text = render_cohere_embed({{{0.5F}}, {}}, body, CohereVersion::kV1, "i", 3);
  ASSERT_TRUE(text);
  const json answer = json::parse(*text);
  EXPECT_EQ(answer["embeddings"], json::parse("[[0.5]]"));
  EXPECT_EQ(answer["response_type"], "embeddings_floats");
  EXPECT_EQ(answer["texts"], json::array());  // token ids are no texts
  EXPECT_EQ(answer["meta"]["api_version"]["version"], "1");
}

TEST(CohereAnswer, IsAnErrorIfAValueIsNotFinite) {
  const auto body = parsed(R"({"texts":["a"],"embedding_types":["int8"]})");
  const EmbeddingAnswer answer{{{std::numeric_limits<float>::quiet_NaN()}}, {}};
  const auto text = render_cohere_embed(answer, body, CohereVersion::kV2, "i", 1);
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().kind, ErrorKind::kInternal);
}

}  // namespace
}  // namespace espalier::server
