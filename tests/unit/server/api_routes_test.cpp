#include "server/api/api_routes.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "fake_model.h"
#include "server/api/route_paths.h"

namespace espalier::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;

ApiKeys keys_of(const std::string& lines) {
  ApiKeys keys(false);
  keys.parse(lines, "keys");
  return keys;
}

class Routes : public testing::Test {
 protected:
  Routes()
      : scheduler_({&forward_pass_}, {}, &metrics_),
        service_(fake_served_model(), scheduler_),
        routes_(all_routes(context())) {}

  /// As without a port of their own for probes.
  static std::vector<Route> all_routes(const ApiContext& context) {
    auto routes = api_routes(context);
    for (Route& route : admin_routes(context)) routes.push_back(std::move(route));
    return routes;
  }

  ApiContext context(const InferenceService& service) {
    ApiContext context;
    context.models = &directories_.emplace_back(std::vector{&service});
    context.scheduler = &scheduler_;
    context.metrics = &metrics_;
    context.ready = [this] { return ready_; };
    return context;
  }
  ApiContext context() { return context(service_); }

  HttpResponse call(const std::string& path, const std::string& body = {},
                    const std::string& content_type = "application/json") {
    HttpRequest request;
    request.path = path;
    request.content_type = content_type;
    request.body = body;
    request.id = "an-id";
    request.client_gone = [] { return false; };
    for (const auto& route : routes_)
      if (route.path == path) return route.handler(request);
    throw std::out_of_range(path);
  }
  json call_json(const std::string& path, const std::string& body) {
    const auto response = call(path, body);
    EXPECT_EQ(response.status, 200) << response.body;
    return json::parse(response.body);
  }

  bool ready_ = true;
  Metrics metrics_;
  FakeForwardPass forward_pass_;
  scheduler::Scheduler scheduler_;
  InferenceService service_;
  std::deque<ModelDirectory> directories_;
  std::vector<Route> routes_;
};

TEST_F(Routes, EmbeddingsAnswerNamesTheServedModelWhateverWasAskedFor) {
  const json answer =
      call_json(kEmbeddingsPath, R"({"input":["a","b"],"model":"text-embedding-3-small"})");
  EXPECT_EQ(answer["model"], "fake");
  EXPECT_EQ(answer["data"].size(), 2U);
  EXPECT_EQ(answer["usage"]["prompt_tokens"], answer["usage"]["total_tokens"]);
}

TEST_F(Routes, EmbeddingsAsBase64DecodeToTheirLength) {
  const json answer =
      call_json(kEmbeddingsPath, R"({"input":"a","encoding_format":"base64","dimensions":3})");
  EXPECT_EQ(answer["data"][0]["embedding"].get<std::string>().size(), 16U);  // 12 bytes
}

TEST_F(Routes, RerankAnswersHaveTheRequestsId) {
  const std::string body = R"({"query":"q","documents":["a","b c d e f"],"return_documents":true})";
  const json first = call_json(kRerankPath, body);
  EXPECT_EQ(first["results"][0]["index"], 0);
  EXPECT_EQ(first["results"][0]["document"]["text"], "a");
  EXPECT_THAT(first["id"].get<std::string>(), HasSubstr("rerank-an-id"));
}

TEST_F(Routes, MistakesAre400WithTheFieldAtFault) {
  const auto response = call(kEmbeddingsPath, R"({"input":[1,-1]})");
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(json::parse(response.body)["error"]["param"], "input[1]");
  EXPECT_EQ(call(kEmbeddingsPath, "").status, 400);
  EXPECT_EQ(call(kRerankPath, "{\"query\":").status, 400);
}

TEST_F(Routes, BodiesThatAreNotJsonAre415WithTheMend) {
  for (const char* type : {"text/plain", "application/x-www-form-urlencoded", "multipart/form-data",
                           "application/jsonl"}) {
    const auto response = call(kRerankPath, "{}", type);
    EXPECT_EQ(response.status, 415) << type;
    EXPECT_THAT(response.body, HasSubstr("Content-Type: application/json"));
  }
  for (const char* type : {"", "application/json", "application/vnd.api+json"})
    EXPECT_EQ(call(kEmbeddingsPath, R"({"input":"a"})", type).status, 200) << type;
}

TEST_F(Routes, NullIsAbsentWhereAFieldHasTwoNames) {
  EXPECT_EQ(call("/v2/embed", R"({"texts":["a"],"inputs":null,"images":null})").status, 200);
  EXPECT_EQ(call("/v2/embed", R"({"texts":null,"inputs":[{"content":[{"text":"a"}]}]})").status,
            200);
  EXPECT_EQ(call("/score", R"({"text_1":"a","text_2":"b","queries":null,"documents":null})").status,
            200);
  EXPECT_EQ(call("/score", R"({"text_1":null,"text_2":null,"queries":"a","documents":"b"})").status,
            200);
}

TEST_F(Routes, TextsMayBeObjectsWithATextEverywhere) {
  for (const auto& [path, body] :
       {std::pair("/tokenize", R"({"inputs":["a",{"text":"b"}]})"),
        {"/similarity", R"({"inputs":{"source_sentence":"a","sentences":[{"text":"b"}]}})"},
        {"/rerank", R"({"query":"a","documents":[{"text":"b"}]})"},
        {"/score", R"({"text_1":"a","text_2":[{"text":"b"}]})"}}) {
    const auto response = call(path, body);
    EXPECT_EQ(response.status, 200) << path << response.body;
  }
}

TEST_F(Routes, ErrorsOnTheWayToAHandlerHaveTheFormOfItsRoute) {
  ApiError error;
  error.kind = ErrorKind::kPayloadTooLarge;
  error.message = "too large";
  for (const Route& route : routes_) {
    if (route.method != "POST") continue;
    const json body = json::parse(route.error_form(error).body);
    const bool tei = route.path == kTeiEmbedPath || route.path == kTeiEmbedAllPath ||
                     route.path == kTeiSimilarityPath || route.path == kTeiTokenizePath ||
                     route.path == kTeiDecodePath;
    EXPECT_EQ(body.contains("error_type"), tei) << route.path;
    EXPECT_EQ(body["error"].is_string(), tei) << route.path;
  }
}

TEST_F(Routes, WithKeysOnlyTheProbesAreOpen) {
  const auto keys = keys_of("shop secret\n");
  auto guarded = context();
  guarded.api_keys = &keys;
  HttpRequest request;
  for (const Route& route : all_routes(guarded)) {
    const bool open = route.path == kLivePath || route.path == kReadyPath ||
                      route.path == kHealthPath || route.path == kMetricsPath;
    EXPECT_EQ(!route.admission, open) << route.path;
    if (open) continue;
    request.fields = HeaderFields();
    request.fields.add("authorization", "Bearer guessed");
    const auto refusal = route.admission(request);
    ASSERT_TRUE(refusal) << route.path;
    EXPECT_EQ(refusal->status, 401);
    const json error = json::parse(refusal->body)["error"];
    if (error.is_object()) {
      EXPECT_EQ(error["type"], "authentication_error");
      EXPECT_EQ(error["code"], "invalid_api_key");
    } else {  // text-embeddings-inference's form
      EXPECT_EQ(json::parse(refusal->body)["error_type"], "Unauthorized");
    }
    EXPECT_THAT(refusal->headers, testing::Contains(testing::Pair("WWW-Authenticate", "Bearer")));
    request.fields = HeaderFields();
    request.fields.add("authorization", "Bearer secret");
    EXPECT_FALSE(route.admission(request)) << route.path;
  }
}

TEST_F(Routes, TimeoutThatIsNoNumberIs400BeforeTheBodyIsRead) {
  HttpRequest request;
  request.fields.add("x-request-timeout-ms", "soon");
  const auto refusal = routes_.front().admission(request);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->status, 400);
  EXPECT_THAT(refusal->body, HasSubstr("X-Request-Timeout-Ms"));
  request.fields = HeaderFields();
  request.fields.add("x-request-timeout-ms", "1000");
  EXPECT_FALSE(routes_.front().admission(request));
}

TEST_F(Routes, DebugEndpointsAreThereOnlyWithARecorderAndNeedAnAdminsKey) {
  EXPECT_THROW(call(kTriePath), std::out_of_range);
  const BatchRecorder recorder;
  const auto keys = keys_of("shop secret\nops hidden admin\n");
  auto debugged = context();
  debugged.recorder = &recorder;
  debugged.api_keys = &keys;
  routes_ = all_routes(debugged);
  EXPECT_EQ(call(kTimelinePath).content_type, "application/json");
  EXPECT_THAT(call(kTriePath).body, HasSubstr("no batch has run yet"));
  EXPECT_EQ(call(kTrieSvgPath).content_type, "image/svg+xml");
  for (const Route& route : routes_) {
    if (route.path.starts_with("/debug")) {
      EXPECT_EQ(route.admission({})->status, 401);
      HttpRequest request;
      request.fields.add("authorization", "Bearer secret");
      EXPECT_EQ(route.admission(request)->status, 403);
      request.fields = HeaderFields();
      request.fields.add("authorization", "Bearer hidden");
      EXPECT_FALSE(route.admission(request));
    }
  }
}

TEST_F(Routes, FailureOfTheModelIs500) {
  forward_pass_.fail(true);
  EXPECT_EQ(call(kEmbeddingsPath, R"({"input":"a"})").status, 500);
}

TEST_F(Routes, ExceptionInAHandlerIs500WithoutItsText) {
  auto model = fake_served_model();
  model.embed = [](std::span<const float>, std::optional<size_t>,
                   std::optional<bool>) -> std::vector<float> {
    throw std::runtime_error("secret");
  };
  const InferenceService service(model, scheduler_);
  const auto routes = api_routes(context(service));
  HttpRequest request;
  request.body = R"({"input":"a"})";
  const auto response = routes.front().handler(request);
  EXPECT_EQ(response.status, 500);
  EXPECT_THAT(response.body, testing::Not(HasSubstr("secret")));
}

TEST_F(Routes, ReadinessTellsOfTheDrainAndLivenessDoesNot) {
  for (const char* path : {kReadyPath, kHealthPath}) {
    ready_ = true;
    EXPECT_EQ(call_json(path, ""), json({{"status", "ok"}}));
    ready_ = false;
    const auto response = call(path);
    EXPECT_EQ(response.status, 503);
    EXPECT_EQ(json::parse(response.body), json({{"status", "draining"}}));
  }
  EXPECT_EQ(call_json(kLivePath, ""), json({{"status", "ok"}}));
}

TEST_F(Routes, OnTheAdminPortNothingNeedsAKey) {
  const BatchRecorder recorder;
  const auto keys = keys_of("shop secret\n");
  auto guarded = context();
  guarded.recorder = &recorder;
  guarded.api_keys = &keys;
  EXPECT_EQ(admin_routes(guarded).size(), 4U);
  EXPECT_EQ(open_debug_routes(guarded).size(), 3U);
  for (const auto& routes : {admin_routes(guarded), open_debug_routes(guarded)})
    for (const Route& route : routes) EXPECT_FALSE(route.admission) << route.path;
}

TEST_F(Routes, OneModelIsAskedForByItsName) {
  HttpRequest request;
  const auto ask = [&](const std::string& path) {
    request.path = path;
    const auto route = std::ranges::find(routes_, kModelPath, &Route::path);
    return route->handler(request);
  };
  EXPECT_EQ(json::parse(ask("/v1/models/fake").body)["id"], "fake");
  EXPECT_EQ(ask("/v1/models/f%61ke").status, 200);
  const auto unknown = ask("/v1/models/gpt-4");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(json::parse(unknown.body)["error"]["code"], "model_not_found");
}

TEST_F(Routes, AnswersTellWhatTheyCost) {
  const auto response = call(kEmbeddingsPath, R"({"input":[[1,2,3,4],[1,2,3,5]]})");
  EXPECT_THAT(response.headers, testing::IsSupersetOf({testing::Pair("x-espalier-tokens", "10"),
                                                       testing::Pair("x-espalier-new-rows", "7"),
                                                       testing::Pair("x-compute-tokens", "10")}));
  for (const char* name : {"x-total-time", "x-queue-time", "x-inference-time",
                           "x-tokenization-time", "x-compute-time", "x-compute-characters"}) {
    EXPECT_THAT(response.headers,
                testing::Contains(testing::Pair(name, testing::MatchesRegex("[0-9]+"))));
  }
}

TEST_F(Routes, ModelsListsTheServedOne) {
  const json answer = call_json(kModelsPath, "");
  EXPECT_EQ(answer["object"], "list");
  EXPECT_EQ(answer["data"][0]["id"], "fake");
  EXPECT_EQ(answer["data"][0]["object"], "model");
  EXPECT_GT(answer["data"][0]["created"].get<int64_t>(), 1'600'000'000);
}

TEST_F(Routes, MetricsCountTheTokensOfARequest) {
  call_json(kEmbeddingsPath, R"({"input":[[1,2,3,4],[1,2,3,5]]})");
  const auto response = call(kMetricsPath);
  EXPECT_EQ(response.content_type, "text/plain; version=0.0.4; charset=utf-8");
  // Two sequences of four and the end token; three tokens are shared.
  EXPECT_THAT(response.body, HasSubstr("espalier_tokens_total 10\n"));
  EXPECT_THAT(response.body, HasSubstr("espalier_compact_tokens_total 7\n"));
}

}  // namespace
}  // namespace espalier::server
