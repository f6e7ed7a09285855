// Fields of the peers' clients that change an answer: served on all routes alike, or refused by
// name; never ignored.
#include <gmock/gmock.h>

#include "server/api/cohere_json.h"
#include "server/api/embeddings_json.h"
#include "server/api/rerank_json.h"
#include "server/api/score_json.h"
#include "server/api/tei_json.h"
#include "server/api/tei_tokenize_json.h"

namespace espalier::server {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

/// The body {`start`, `fields`}.
std::string body_of(const std::string& start, const std::string& fields) {
  return "{" + start + (fields.empty() ? "" : "," + fields) + "}";
}

/// `fields` on each route that embeds, as `seen` sees the request.
template <typename Seen>
void on_embedding_routes(const std::string& fields, const Seen& seen) {
  const auto openai = parse_embeddings_body(body_of(R"("input":"a")", fields));
  ASSERT_TRUE(openai) << openai.error().message;
  seen(openai->request);
  for (const auto version : {CohereVersion::kV1, CohereVersion::kV2}) {
    const auto cohere = parse_cohere_embed(body_of(R"("texts":["a"])", fields), version);
    ASSERT_TRUE(cohere) << cohere.error().message;
    seen(cohere->request);
  }
  const auto tei = parse_tei_embed(body_of(R"("inputs":"a")", fields));
  ASSERT_TRUE(tei) << tei.error().message;
  seen(*tei);
}

/// The param of the error of each route that computes, for `fields`.
std::vector<std::string> errors_of(const std::string& fields) {
  std::vector<std::string> params;
  const auto add = [&](const auto& result) {
    params.push_back(result ? "no error" : result.error().param);
  };
  add(parse_embeddings_body(body_of(R"("input":"a")", fields)));
  add(parse_cohere_embed(body_of(R"("texts":["a"])", fields), CohereVersion::kV1));
  add(parse_cohere_embed(body_of(R"("texts":["a"])", fields), CohereVersion::kV2));
  add(parse_tei_embed(body_of(R"("inputs":"a")", fields)));
  add(parse_tei_embed(body_of(R"("inputs":"a")", fields), TeiVectors::kTokens));
  add(parse_similarity(body_of(R"("inputs":{"source_sentence":"a","sentences":["b"]})", fields)));
  bool tei = false;
  add(parse_rerank_body(body_of(R"("query":"q","documents":["a"])", fields), tei));
  add(parse_rerank_body(body_of(R"("query":"q","texts":["a"])", fields), tei));
  add(parse_score_body(body_of(R"("text_1":"a","text_2":"b")", fields)));
  return params;
}

TEST(PeerFields, LengthOfVectorsHasTwoNames) {
  for (const char* const fields :
       {R"("dimensions":8)", R"("output_dimension":8)", R"("dimensions":8,"output_dimension":8)"}) {
    on_embedding_routes(fields,
                        [](const EmbeddingRequest& request) { EXPECT_EQ(request.dimensions, 8U); });
  }
  const auto similarity =
      parse_similarity(R"({"inputs":{"source_sentence":"a","sentences":["b"]},"dimensions":8})");
  ASSERT_TRUE(similarity);
  EXPECT_EQ(similarity->dimensions, 8U);
  const auto two = parse_embeddings_body(R"({"input":"a","dimensions":8,"output_dimension":9})");
  ASSERT_FALSE(two);
  EXPECT_EQ(two.error().param, "output_dimension");
  EXPECT_THAT(two.error().message, HasSubstr("`dimensions` say different things"));
}

TEST(PeerFields, NormalisingHasFourNames) {
  for (const char* const name : {"normalize", "normalized", "use_activation"}) {
    for (const bool value : {true, false}) {
      on_embedding_routes(
          "\"" + std::string(name) + "\":" + (value ? "true" : "false"),
          [&](const EmbeddingRequest& request) { EXPECT_EQ(request.normalize, value) << name; });
    }
  }
  on_embedding_routes(R"("embd_normalize":-1)",
                      [](const EmbeddingRequest& request) { EXPECT_EQ(request.normalize, false); });
  on_embedding_routes(R"("embd_normalize":2,"normalize":true)",
                      [](const EmbeddingRequest& request) { EXPECT_EQ(request.normalize, true); });
  for (const char* const norm : {"0", "1", "3", "true", "\"2\"", "2.5"}) {
    const auto other =
        parse_embeddings_body(R"({"input":"a","embd_normalize":)" + std::string(norm) + "}");
    ASSERT_FALSE(other) << norm;
    EXPECT_EQ(other.error().param, "embd_normalize");
  }
  const auto both = parse_embeddings_body(R"({"input":"a","normalize":true,"embd_normalize":-1})");
  ASSERT_FALSE(both);
  EXPECT_EQ(both.error().param, "embd_normalize");
}

TEST(PeerFields, VoyagesTruncationIsTruncate) {
  on_embedding_routes(R"("truncation":false)", [](const EmbeddingRequest& request) {
    EXPECT_EQ(request.options.truncation, Truncation::kRefuse);
  });
  on_embedding_routes(R"("truncation":true,"truncate":null)", [](const EmbeddingRequest& request) {
    EXPECT_EQ(request.options.truncation, Truncation::kCutEnd);
  });
  for (const auto& param : errors_of(R"("truncation":true,"truncate":true)"))
    EXPECT_EQ(param, "truncation");
  bool tei = false;
  const auto rerank =
      parse_rerank_body(R"({"query":"q","documents":["a"],"truncation":false})", tei);
  ASSERT_TRUE(rerank);
  EXPECT_EQ(rerank->request.truncation, Truncation::kRefuse);
}

TEST(PeerFields, VoyagesBase64IsOfFloats) {
  const auto float_base64 =
      parse_embeddings_body(R"({"input":"a","encoding_format":"base64","output_dtype":"float"})");
  ASSERT_TRUE(float_base64) << float_base64.error().message;
  EXPECT_EQ(float_base64->encoding, EmbeddingEncoding::kBase64);
  EXPECT_FALSE(
      parse_embeddings_body(R"({"input":"a","encoding_format":"base64","output_dtype":"int8"})"));
  EXPECT_FALSE(
      parse_embeddings_body(R"({"input":"a","encoding_format":"float","output_dtype":"int8"})"));
}

TEST(PeerFields, VoyagesTopKIsTopN) {
  bool tei = false;
  const auto some = parse_rerank_body(R"({"query":"q","documents":["a"],"top_k":3})", tei);
  ASSERT_TRUE(some);
  EXPECT_EQ(some->top_n, 3U);
  const auto two = parse_rerank_body(R"({"query":"q","documents":["a"],"top_n":2,"top_k":3})", tei);
  ASSERT_FALSE(two);
  EXPECT_EQ(two.error().param, "top_k");
}

TEST(PeerFields, ScoresWithoutActivationAreLogits) {
  for (const auto& [fields, raw] :
       std::vector<std::pair<std::string, bool>>{{"", false},
                                                 {R"("raw_scores":true)", true},
                                                 {R"("use_activation":false)", true},
                                                 {R"("activation":false)", true},
                                                 {R"("softmax":false)", true},
                                                 {R"("use_activation":true)", false},
                                                 {R"("raw_scores":true,"softmax":false)", true}}) {
    bool tei = false;
    const auto rerank = parse_rerank_body(body_of(R"("query":"q","documents":["a"])", fields), tei);
    ASSERT_TRUE(rerank) << fields;
    EXPECT_EQ(rerank->request.raw_scores, raw) << fields;
    const auto score = parse_score_body(body_of(R"("text_1":"a","text_2":"b")", fields));
    ASSERT_TRUE(score) << fields;
    EXPECT_EQ(score->raw_scores, raw) << fields;
  }
  const auto both =
      parse_score_body(R"({"text_1":"a","text_2":"b","raw_scores":true,"use_activation":true})");
  ASSERT_FALSE(both);
  EXPECT_EQ(both.error().param, "raw_scores");
  ScoreAnswer answer;
  answer.logits = {-1.5};
  EXPECT_THAT(render_scores(answer, true, "i", "m", 1), HasSubstr(R"("score":-1.5})"));
}

TEST(PeerFields, WhatIsNotServedIsRefusedOnEveryRoute) {
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {"messages", "[]"},
           {"chat_template", R"("{{ x }}")"},
           {"chat_template_kwargs", R"({"instruction":"x"})"},
           {"images", R"(["data:"])"},
           {"late_chunking", "true"},
           {"return_multivector", "true"},
           {"embed_dtype", R"("float16")"},
           {"endianness", R"("big")"},
           {"padding", R"("max_length")"}}) {
    for (const auto& param : errors_of("\"" + name + "\":" + value)) EXPECT_EQ(param, name);
    for (const auto& param : errors_of("\"" + name + "\":null")) EXPECT_EQ(param, "no error");
  }
}

TEST(PeerFields, WhatAsksForWhatIsDoneAnywayIsTaken) {
  for (const char* const fields :
       {R"("late_chunking":false)", R"("return_multivector":false)", R"("embed_dtype":"float32")",
        R"("endianness":"native")", R"("endianness":"little")", R"("padding":"do_not_pad")",
        R"("chat_template_kwargs":{})", R"("images":[])", R"("user":7)", R"("priority":5)",
        R"("cache_salt":"x")", R"("request_id":"x")", R"("mm_processor_kwargs":{"a":1})",
        R"("max_chunks_per_doc":10)"}) {
    for (const auto& param : errors_of(fields)) EXPECT_EQ(param, "no error") << fields;
  }
}

TEST(PeerFields, HuggingFacesParametersCountAsFieldsBesideInputs) {
  const auto embed = parse_tei_embed(
      R"({"inputs":"a","parameters":{"normalize":false,"truncate":false,"prompt_name":"query"}})");
  ASSERT_TRUE(embed) << embed.error().message;
  EXPECT_EQ(embed->normalize, false);
  EXPECT_EQ(embed->options.truncation, Truncation::kRefuse);
  EXPECT_EQ(embed->options.prompt_name, "query");
  const auto similarity = parse_similarity(
      R"({"inputs":{"source_sentence":"a","sentences":["b"]},"parameters":{},"prompt_name":"q"})");
  ASSERT_TRUE(similarity);
  EXPECT_EQ(similarity->options.prompt_name, "q");
  const auto two =
      parse_tei_embed(R"({"inputs":"a","normalize":true,"parameters":{"normalize":false}})");
  ASSERT_FALSE(two);
  EXPECT_EQ(two.error().param, "parameters.normalize");
  const auto null = parse_tei_embed(
      R"({"inputs":"a","normalize":false,"truncate":null,
          "parameters":{"normalize":null,"truncate":false}})");
  ASSERT_TRUE(null) << null.error().message;
  EXPECT_EQ(null->normalize, false);
  EXPECT_EQ(null->options.truncation, Truncation::kRefuse);
  EXPECT_FALSE(parse_tei_embed(R"({"parameters":{"inputs":"a"}})"));
  const auto list = parse_tei_embed(R"({"inputs":"a","parameters":[]})");
  ASSERT_FALSE(list);
  EXPECT_EQ(list.error().param, "parameters");
}

TEST(PeerFields, TeiRoutesSayWhatTheyCannotDo) {
  const auto base64 = parse_tei_embed(R"({"inputs":"a","encoding_format":"base64"})");
  ASSERT_FALSE(base64);
  EXPECT_EQ(base64.error().param, "encoding_format");
  EXPECT_TRUE(parse_tei_embed(R"({"inputs":"a","encoding_format":"float"})"));
  for (const char* const fields : {R"("dimensions":8)", R"("normalize":true)"}) {
    const auto tokens = parse_tei_embed(body_of(R"("inputs":"a")", fields), TeiVectors::kTokens);
    ASSERT_FALSE(tokens) << fields;
    EXPECT_THAT("\"" + tokens.error().param, StartsWith(std::string(fields).substr(0, 8)));
  }
  EXPECT_TRUE(parse_tei_embed(R"({"inputs":"a","normalize":false})", TeiVectors::kTokens));
  const auto tokenize = parse_tokenize(R"({"inputs":"a","truncate_prompt_tokens":5})");
  ASSERT_FALSE(tokenize);
  EXPECT_EQ(tokenize.error().param, "truncate_prompt_tokens");
}

}  // namespace
}  // namespace espalier::server
