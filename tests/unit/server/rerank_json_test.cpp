#include "server/api/rerank_json.h"

#include <gmock/gmock.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace espalier::server {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

RerankRequest parsed(std::string_view body) {
  auto result = parse_rerank_request(body);
  EXPECT_TRUE(result) << result.error().message;
  return result.value_or(RerankRequest{});
}

std::string error_of(std::string_view body) {
  const auto result = parse_rerank_request(body);
  if (result) return "no error";
  EXPECT_EQ(http_status(result.error().kind), 400);
  return result.error().param + ": " + result.error().message;
}

TEST(RerankRequest, DocumentsAreStringsOrObjectsWithText) {
  const auto request =
      parsed(R"({"query":"q","documents":["a",{"text":"b","title":{"text":5}},"",{"text":""}]})");
  EXPECT_EQ(request.query, "q");
  EXPECT_THAT(request.documents, ElementsAre("a", "b", "", ""));
  EXPECT_FALSE(request.top_n || request.instruction);
  EXPECT_FALSE(request.return_documents);
  EXPECT_TRUE(request.truncate);
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
  EXPECT_EQ(parsed(R"({"query":"","documents":["a"]})").query, "");
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

TEST(RerankRequest, At2048DocumentsItEnds) {
  std::string list = "\"a\"";
  for (size_t i = 1; i < kRerankDocumentsMax; ++i) list += ",\"a\"";
  EXPECT_EQ(parsed(R"({"query":"q","documents":[)" + list + "]}").documents.size(), 2048U);
  EXPECT_THAT(error_of(R"({"query":"q","documents":[)" + list + ",\"a\"]}"),
              HasSubstr("2049 entries"));
}

TEST(RerankRequest, OtherOptionsOfWrongTypeAreNamed) {
  EXPECT_THAT(error_of(R"({"query":"q","documents":["a"],"return_documents":1})"),
              HasSubstr("return_documents: "));
  EXPECT_THAT(error_of(R"({"query":"q","documents":["a"],"instruction":1})"),
              HasSubstr("instruction: "));
  EXPECT_THAT(error_of(R"({"query":"q","documents":["a"],"truncate":1})"), HasSubstr("truncate: "));
  EXPECT_THAT(error_of(R"({"query":"q","documents":["a"],"model":1})"), HasSubstr("model: "));
}

TEST(RerankAnswer, HasWhatCoheresAndJinasClientsRead) {
  RerankRequest request;
  request.documents = {"first", "sec\"ond"};
  const RerankAnswer answer{{{1, 0.9F}, {0, 0.25F}}, 42};
  const auto body = render_rerank_answer(answer, request, "rerank-1", "m");
  ASSERT_TRUE(body);
  EXPECT_EQ(json::parse(*body), json::parse(R"({
      "id":"rerank-1","object":"list","model":"m",
      "results":[{"index":1,"relevance_score":0.9},{"index":0,"relevance_score":0.25}],
      "usage":{"prompt_tokens":42,"total_tokens":42},
      "meta":{"api_version":{"version":"2"},"billed_units":{"search_units":1},
              "tokens":{"input_tokens":42}}})"));
}

TEST(RerankAnswer, ReturnsDocumentsOnRequest) {
  RerankRequest request;
  request.documents = {"first", "sec\"ond"};
  request.return_documents = true;
  const auto body = render_rerank_answer({{{1, 0.9F}, {0, 0.25F}}, 42}, request, "i", "m");
  ASSERT_TRUE(body);
  const json results = json::parse(*body)["results"];
  EXPECT_EQ(results[0]["document"]["text"], "sec\"ond");
  EXPECT_EQ(results[1]["document"]["text"], "first");
}

TEST(RerankAnswer, NonFiniteScoresAreAnInternalError) {
  RerankRequest request;
  request.documents = {"a"};
  const auto body =
      render_rerank_answer({{{0, std::numeric_limits<float>::infinity()}}, 1}, request, "i", "m");
  ASSERT_FALSE(body);
  EXPECT_EQ(body.error().kind, ErrorKind::kInternal);
}

}  // namespace
}  // namespace espalier::server
