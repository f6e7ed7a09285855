#include "server/api/rerank_json.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace espalier::server {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

RerankBody parsed(std::string_view body) {
  bool tei = false;
  auto result = parse_rerank_body(body, tei);
  EXPECT_TRUE(result) << result.error().message;
  EXPECT_TRUE(!result || result->tei == tei);
  return result.value_or(RerankBody{});
}

std::string error_of(std::string_view body) {
  bool tei = false;
  const auto result = parse_rerank_body(body, tei);
  if (result) return "no error";
  EXPECT_EQ(http_status(result.error().kind), 400);
  return result.error().param + ": " + result.error().message;
}

TEST(RerankRequest, DocumentsAreStringsOrObjectsWithText) {
  const auto body =
      parsed(R"({"query":"q","documents":["a",{"text":"b","title":{"text":5}},"",{"text":""}]})");
  EXPECT_THAT(body.request.queries, ElementsAre("q"));
  EXPECT_THAT(body.request.documents, ElementsAre("a", "b", "", ""));
  EXPECT_FALSE(body.top_n || body.request.instruction);
  EXPECT_FALSE(body.return_documents || body.request.raw_scores || body.tei);
  EXPECT_EQ(body.request.truncation, Truncation::kCutEnd);
}

TEST(RerankRequest, RankFieldsAreFewAndCountOnce) {
  const std::string documents =
      R"({"query":"q","documents":[{"title":"t","text":"x","year":5,"body":null}],"rank_fields":)";
  EXPECT_THAT(parsed(documents + R"(["title","year","title","body","text"]})").request.documents,
              ElementsAre("t\n5\nx"));
  json many = json::array();
  for (int i = 0; i < 32; ++i) many.push_back("f" + std::to_string(i));
  EXPECT_THAT(parsed(documents + many.dump() + "}").request.documents, ElementsAre(""));
  many.push_back("f31");
  EXPECT_THAT(parsed(documents + many.dump() + "}").request.documents, ElementsAre(""));
  many.push_back("f32");
  EXPECT_THAT(error_of(documents + many.dump() + "}"), HasSubstr("rank_fields: "));
}

TEST(RerankRequest, TopNOfZeroNullOrNothingIsAll) {
  for (const char* top_n : {"0", "null", "0.0"}) {
    const auto body = std::string(R"({"query":"q","documents":["a"],"top_n":)") + top_n + "}";
    EXPECT_EQ(parsed(body).top_n, std::nullopt) << top_n;
  }
  EXPECT_EQ(parsed(R"({"query":"q","documents":["a"],"top_n":5})").top_n, 5U);
}

TEST(RerankRequest, WrongTopNIsNamed) {
  for (const char* top_n : {"-1", "1.5", "\"3\"", "1e300", "[]"}) {
    const auto body = std::string(R"({"query":"q","documents":["a"],"top_n":)") + top_n + "}";
    EXPECT_THAT(error_of(body), HasSubstr("top_n: ")) << top_n;
  }
}

TEST(RerankRequest, QueryMustBeAStringAndMayBeEmpty) {
  EXPECT_THAT(parsed(R"({"query":"","documents":["a"]})").request.queries, ElementsAre(""));
  EXPECT_THAT(error_of(R"({"documents":["a"]})"), HasSubstr("query: `query` is missing"));
  EXPECT_THAT(error_of(R"({"query":null,"documents":["a"]})"), HasSubstr("query: "));
  EXPECT_THAT(error_of(R"({"query":5,"documents":["a"]})"), HasSubstr("query: "));
}

TEST(RerankRequest, DocumentsMustBeAListThatIsNotEmpty) {
  EXPECT_THAT(error_of(R"({"query":"q"})"), HasSubstr("documents: `documents` is missing"));
  EXPECT_THAT(error_of(R"({"query":"q","documents":null})"), HasSubstr("documents: "));
  EXPECT_THAT(error_of(R"({"query":"q","documents":"a"})"), HasSubstr("documents: "));
  EXPECT_THAT(error_of(R"({"query":"q","documents":[]})"), HasSubstr("documents: "));
  EXPECT_THAT(error_of(R"({"query":"q","documents":["a",3]})"), HasSubstr("documents[1]: "));
  EXPECT_THAT(error_of(R"({"query":"q","documents":[["a"]]})"), HasSubstr("documents[0]: "));
  EXPECT_THAT(error_of(R"({"query":"q","documents":[{"title":"a"}]})"),
              HasSubstr("documents[0].text: `documents[0].text` must be a string, it is missing"));
  EXPECT_THAT(error_of(R"({"query":"q","documents":[{"text":null}]})"), HasSubstr("not null"));
}

TEST(RerankRequest, RankFieldsMakeTheTextOfDocumentsThatAreObjects) {
  const auto body = parsed(
      R"({"query":"q","rank_fields":["title","body"],
          "documents":[{"title":"T","body":"B","text":"no"},{"body":5},"plain",{"other":1}]})");
  EXPECT_THAT(body.request.documents, ElementsAre("T\nB", "5", "plain", ""));
  EXPECT_THAT(error_of(R"({"query":"q","documents":["a"],"rank_fields":"title"})"),
              HasSubstr("rank_fields: "));
}

TEST(RerankRequest, TextsAreTextEmbeddingsInferences) {
  const auto body = parsed(
      R"({"query":"q","texts":["a","b"],"raw_scores":true,"return_text":true,"truncate":true})");
  EXPECT_TRUE(body.tei && body.request.raw_scores && body.return_documents);
  EXPECT_EQ(body.request.document_field, "texts");
  EXPECT_THAT(error_of(R"({"query":"q","texts":["a"],"documents":["a"]})"), HasSubstr("texts: "));
  EXPECT_THAT(error_of(R"({"query":"q","texts":["a"],"truncation_direction":"Left"})"),
              HasSubstr("truncation_direction: "));
  EXPECT_THAT(error_of(R"({"query":"q","texts":["a"],"truncation_side":"left"})"),
              HasSubstr("truncation_side: "));
  EXPECT_THAT(error_of(R"({"query":"q","texts":["a"],"truncate":"START"})"),
              HasSubstr("truncate: "));
}

TEST(RerankRequest, NullIsNeitherDocumentsNorTexts) {
  EXPECT_FALSE(parsed(R"({"query":"q","documents":["a"],"texts":null})").tei);
  EXPECT_TRUE(parsed(R"({"query":"q","documents":null,"texts":["a"]})").tei);
}

TEST(RerankRequest, LimitsOfTokensAreRead) {
  const auto body = parsed(
      R"({"query":"q","documents":["a"],"max_tokens_per_doc":100,"max_tokens_per_query":20,
          "truncate_prompt_tokens":300})");
  EXPECT_EQ(body.request.document_tokens_max, 100U);
  EXPECT_EQ(body.request.query_tokens_max, 20U);
  EXPECT_EQ(body.request.tokens_max, 300U);
  EXPECT_THAT(error_of(R"({"query":"q","documents":["a"],"max_tokens_per_doc":0})"),
              HasSubstr("max_tokens_per_doc: "));
}

TEST(RerankRequest, PromptsOfEmbeddingsAreRefused) {
  EXPECT_THAT(error_of(R"({"query":"q","documents":["a"],"prompt_name":"query"})"),
              HasSubstr("prompt_name: "));
  EXPECT_THAT(error_of(R"({"query":"q","documents":["a"],"input_type":"search_query"})"),
              HasSubstr("input_type: "));
}

TEST(RerankRequest, OtherOptionsOfWrongTypeAreNamed) {
  EXPECT_THAT(error_of(R"({"query":"q","documents":["a"],"return_documents":1})"),
              HasSubstr("return_documents: "));
  EXPECT_THAT(error_of(R"({"query":"q","documents":["a"],"instruction":1})"),
              HasSubstr("instruction: "));
  EXPECT_THAT(error_of(R"({"query":"q","documents":["a"],"truncate":1})"), HasSubstr("truncate: "));
  EXPECT_THAT(error_of(R"({"query":"q","documents":["a"],"model":1})"), HasSubstr("model: "));
}

class RerankAnswer : public testing::Test {
 protected:
  RerankAnswer() {
    body_.request.documents = {"first", "sec\"ond"};
    answer_.logits = {-1, 0};
  }
  RerankBody body_;
  ScoreAnswer answer_;
};

TEST_F(RerankAnswer, HasWhatCoheresAndJinasClientsRead) {
  EXPECT_EQ(json::parse(render_rerank(answer_, body_, "1", "m", 42)), json::parse(R"({
      "id":"rerank-1","object":"list","model":"m",
      "results":[{"index":1,"relevance_score":0.5},{"index":0,"relevance_score":0.26894143}],
      "usage":{"prompt_tokens":42,"total_tokens":42},
      "meta":{"api_version":{"version":"2"},"billed_units":{"search_units":1},
              "tokens":{"input_tokens":42}}})"));
}

TEST_F(RerankAnswer, ReturnsDocumentsOnRequest) {
  body_.return_documents = true;
  const json results = json::parse(render_rerank(answer_, body_, "i", "m", 42))["results"];
  EXPECT_EQ(results[0]["document"]["text"], "sec\"ond");
  EXPECT_EQ(results[1]["document"]["text"], "first");
}

TEST_F(RerankAnswer, OfTextEmbeddingsInferenceIsABareArray) {
  body_.top_n = 1;
  EXPECT_EQ(json::parse(render_tei_rerank(answer_, body_)),
            json::parse(R"([{"index":1,"score":0.5}])"));
  body_.return_documents = true;
  body_.request.raw_scores = true;
  body_.top_n.reset();
  EXPECT_EQ(json::parse(render_tei_rerank(answer_, body_)),
            json::parse(R"([{"index":1,"text":"sec\"ond","score":0},
                            {"index":0,"text":"first","score":-1}])"));
}

}  // namespace
}  // namespace espalier::server
