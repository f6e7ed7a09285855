#include "server/api/tei_json.h"

#include <gmock/gmock.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace espalier::server {
namespace {

using nlohmann::json;
using testing::ElementsAre;

std::string refused(const Result<EmbeddingRequest>& result) {
  if (result) return "nothing";
  EXPECT_EQ(http_status(result.error().kind), 400);
  return result.error().param;
}

TEST(TeiEmbedRequest, IsNormalisedUnlessToldOtherwise) {
  const auto request = parse_tei_embed(
      R"({"inputs":["a","b"],"prompt_name":"query","truncation_direction":"Left"})");
  ASSERT_TRUE(request);
  EXPECT_THAT(request->inputs, ElementsAre(EmbeddingInput("a"), EmbeddingInput("b")));
  EXPECT_EQ(request->normalize, true);
  EXPECT_EQ(request->options.prompt_name, "query");
  EXPECT_EQ(request->options.truncation, Truncation::kCutStart);
  EXPECT_EQ(request->input_name(1), "inputs[1]");
  const auto raw = parse_tei_embed(R"({"inputs":"a","normalize":false,"dimensions":3})");
  EXPECT_EQ(raw->normalize, false);
  EXPECT_EQ(raw->dimensions, 3U);
  EXPECT_EQ(raw->input_name(0), "inputs");
}

TEST(TeiEmbedRequest, FieldsOfAWrongTypeAreNamed) {
  EXPECT_EQ(refused(parse_tei_embed("{}")), "inputs");
  EXPECT_EQ(refused(parse_tei_embed(R"({"inputs":["a",null]})")), "inputs[1]");
  EXPECT_EQ(refused(parse_tei_embed(R"({"inputs":"a","normalize":1})")), "normalize");
  EXPECT_EQ(refused(parse_tei_embed(R"({"inputs":"a","dimensions":0})")), "dimensions");
  EXPECT_EQ(refused(parse_tei_embed(R"({"inputs":"a","model":[]})")), "model");
}

TEST(SimilarityRequest, HasTheSourceFirst) {
  const auto request =
      parse_similarity(R"({"inputs":{"source_sentence":"s","sentences":["a",{"text":"b"}]}})");
  ASSERT_TRUE(request);
  EXPECT_THAT(request->inputs,
              ElementsAre(EmbeddingInput("s"), EmbeddingInput("a"), EmbeddingInput("b")));
  EXPECT_EQ(request->input_name(0), "inputs.source_sentence");
  EXPECT_EQ(request->input_name(2), "inputs.sentences[1]");
  EXPECT_EQ(request->normalize, true);
}

TEST(SimilarityRequest, OptionsAreParametersOrBesideTheInputs) {
  const std::string inputs = R"({"inputs":{"source_sentence":"s","sentences":["a"]})";
  const auto options_of = [&](const std::string& rest) {
    const auto request = parse_similarity(inputs + rest);
    EXPECT_TRUE(request) << rest;
    return request.value_or(EmbeddingRequest{}).options;
  };
  EXPECT_EQ(options_of(R"(,"prompt_name":"p"})").prompt_name, "p");
  EXPECT_EQ(options_of(R"(,"parameters":null,"prompt_name":"p"})").prompt_name, "p");
  EXPECT_EQ(options_of(R"(,"parameters":{"prompt_name":"p"}})").prompt_name, "p");
  const auto both = options_of(R"(,"parameters":{"truncate":false},"prompt_name":"p"})");
  EXPECT_EQ(both.prompt_name, "p");
  EXPECT_EQ(both.truncation, Truncation::kRefuse);
  EXPECT_EQ(
      refused(parse_similarity(inputs + R"(,"parameters":{"prompt_name":"p"},"prompt_name":"q"})")),
      "parameters.prompt_name");
  EXPECT_EQ(refused(parse_similarity(inputs + R"(,"parameters":[]})")), "parameters");
  EXPECT_EQ(refused(parse_similarity(inputs + R"(,"parameters":{"truncate":5}})")), "truncate");
}

TEST(SimilarityRequest, InputsOfAWrongTypeAreNamed) {
  const auto with = [](const std::string& inputs) {
    return refused(parse_similarity(R"({"inputs":)" + inputs + "}"));
  };
  for (const char* inputs : {"null", "[]", "\"a\"", "5"}) EXPECT_EQ(with(inputs), "inputs");
  EXPECT_EQ(refused(parse_similarity("{}")), "inputs");
  EXPECT_EQ(with(R"({"sentences":["a"]})"), "inputs.source_sentence");
  EXPECT_EQ(with(R"({"source_sentence":5,"sentences":["a"]})"), "inputs.source_sentence");
  EXPECT_EQ(with(R"({"source_sentence":"","sentences":["a"]})"), "inputs.source_sentence");
  EXPECT_EQ(with(R"({"source_sentence":"s"})"), "inputs.sentences");
  EXPECT_EQ(with(R"({"source_sentence":"s","sentences":[]})"), "inputs.sentences");
  EXPECT_EQ(with(R"({"source_sentence":"s","sentences":"a"})"), "inputs.sentences");
  EXPECT_EQ(with(R"({"source_sentence":"s","sentences":["a",null]})"), "inputs.sentences[1]");
  EXPECT_EQ(with(R"({"source_sentence":"s","sentences":["a",""]})"), "inputs.sentences[1]");
}

TEST(TeiAnswers, ArePlainArrays) {
  EXPECT_EQ(*render_tei_embeddings({{{1, 2}, {3, 4}}, {}}), "[[1,2],[3,4]]");
  // Two inputs of two and one token, H = 2.
  EXPECT_EQ(*render_token_embeddings({{{1, 2, 3, 4}, {5, 6}}, 2}), "[[[1,2],[3,4]],[[5,6]]]");
  EXPECT_EQ(*render_similarities({{{1, 0}, {0.5F, 0.5F}, {-1, 0}}, {}}), "[0.5,-1]");
}

TEST(TeiAnswers, AreErrorsIfAValueIsNotFinite) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(render_tei_embeddings({{{kNan}}, {}}).error().kind, ErrorKind::kInternal);
  EXPECT_EQ(render_token_embeddings({{{1, kNan}}, 1}).error().kind, ErrorKind::kInternal);
  EXPECT_EQ(render_similarities({{{1}, {kNan}}, {}}).error().kind, ErrorKind::kInternal);
}

}  // namespace
}  // namespace espalier::server
