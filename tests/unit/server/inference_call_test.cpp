#include "server/api/inference_call.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "fake_model.h"

namespace espalier::server {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::HasSubstr;
using testing::Key;
using testing::Not;
using testing::Pair;

class InferenceRoute : public testing::Test {
 protected:
  InferenceRoute()
      : scheduler_({&forward_pass_}, {}, &metrics_), service_(fake_served_model(), scheduler_) {
    context_.models = &models_;
    context_.scheduler = &scheduler_;
    context_.metrics = &metrics_;
    request_.client_gone = [] { return false; };
    request_.received_at = std::chrono::steady_clock::now();
    request_.client_address = "192.0.2.7";
  }

  Route route(InferenceHandler handler, ErrorForm form = ErrorForm::kOpenAi) {
    return inference_route(context_, "/x", form, std::move(handler));
  }
  HttpResponse answer_of(InferenceHandler handler, ErrorForm form = ErrorForm::kOpenAi) {
    return route(std::move(handler), form).handler(request_);
  }

  Metrics metrics_;
  FakeForwardPass forward_pass_;
  scheduler::Scheduler scheduler_;
  InferenceService service_;
  ModelDirectory models_{{&service_}};
  ApiContext context_;
  HttpRequest request_;
};

Result<std::string> computed(InferenceCall& call) {
  EmbeddingRequest request;
  request.inputs = {TokenIds{1, 2, 3}, TokenIds{1, 2, 4}};
  const auto answer = call.embed(request);
  EXPECT_TRUE(answer);
  return R"({"done":true})";
}

Result<std::string> refused(InferenceCall& call) {
  call.report.tokens = 7;
  return tl::unexpected(ApiError{ErrorKind::kInvalidRequest, "no", "input", "c", {}});
}

TEST_F(InferenceRoute, TellsWhatAnAnswerCost) {
  const auto response = answer_of(computed);
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, R"({"done":true})");
  EXPECT_THAT(
      response.headers,
      testing::IsSupersetOf({Pair("x-compute-type", "cpu"), Pair("x-espalier-tokens", "8"),
                             Pair("x-espalier-new-rows", "6"), Pair("x-compute-characters", "0")}));
  EXPECT_THAT(response.log, testing::IsSupersetOf({Pair("tokens", LogValue(uint64_t{8})),
                                                   Pair("rows", LogValue(uint64_t{6})),
                                                   Pair("inputs", LogValue(uint64_t{2}))}));
}

TEST_F(InferenceRoute, TellsWhatAnErrorCostToo) {
  const auto response = answer_of(refused);
  EXPECT_EQ(response.status, 400);
  for (const char* name :
       {"x-total-time", "x-tokenization-time", "x-queue-time", "x-inference-time", "x-compute-time",
        "x-compute-tokens", "x-compute-characters", "x-compute-type"}) {
    EXPECT_THAT(response.headers, Contains(Key(name)));
  }
  EXPECT_THAT(response.headers, Contains(Pair("x-espalier-tokens", "7")));
  EXPECT_THAT(response.headers, Contains(Pair("x-espalier-new-rows", "0")));
}

TEST_F(InferenceRoute, WritesErrorsInItsForm) {
  const json open_ai = json::parse(answer_of(refused).body);
  EXPECT_EQ(open_ai["error"]["param"], "input");
  const auto tei = answer_of(refused, ErrorForm::kTei);
  EXPECT_EQ(tei.status, 422);
  EXPECT_EQ(json::parse(tei.body), json({{"error", "no"}, {"error_type", "Validation"}}));
  const auto changed = answer_of([](InferenceCall& call) {
    call.error_form = ErrorForm::kTei;
    return refused(call);
  });
  EXPECT_EQ(changed.status, 422);
}

TEST_F(InferenceRoute, WritesErrorsOfTheBodyInItsForm) {
  const ApiError error{ErrorKind::kPayloadTooLarge, "too large", "", "", {}};
  EXPECT_EQ(json::parse(route(refused, ErrorForm::kTei).error_form(error).body)["error"],
            "too large");
  EXPECT_EQ(json::parse(route(refused).error_form(error).body)["error"]["message"], "too large");
}

TEST_F(InferenceRoute, RefusesWhatIsNotJson) {
  request_.content_type = "text/plain";
  const auto response = answer_of(computed, ErrorForm::kTei);
  EXPECT_EQ(response.status, 415);
  EXPECT_THAT(json::parse(response.body)["error"].get<std::string>(), HasSubstr("Content-Type"));
}

TEST_F(InferenceRoute, AnswersExceptionsWithoutTheirText) {
  const auto failed =
      answer_of([](InferenceCall&) -> Result<std::string> { throw std::runtime_error("secret"); });
  EXPECT_EQ(failed.status, 500);
  EXPECT_THAT(failed.body, Not(HasSubstr("secret")));
  const auto out_of_memory = answer_of(
      [](InferenceCall&) -> Result<std::string> { throw std::bad_alloc(); }, ErrorForm::kTei);
  EXPECT_EQ(out_of_memory.status, 424);
  EXPECT_THAT(out_of_memory.body, HasSubstr("memory"));
}

TEST_F(InferenceRoute, CountsWhatWasComputedAlone) {
  const auto stages = [&] {
    const std::string text = metrics_.exposition({});
    const std::string name = "espalier_inference_duration_seconds_count ";
    return std::stoi(text.substr(text.find(name) + name.size()));
  };
  answer_of(computed);
  EXPECT_EQ(stages(), 1);
  answer_of([](InferenceCall& call) -> Result<std::string> {
    TokenizeRequest request;
    request.texts = {"a tree"};
    EXPECT_TRUE(call.tokenize(request));
    EXPECT_GT(call.report.tokens, 0U);
    return "[]";
  });
  answer_of(refused);
  EXPECT_EQ(stages(), 1);
}

TEST_F(InferenceRoute, KnowsWhoAsksAndHowLongTheyWait) {
  request_.fields.add("x-request-timeout-ms", "1500");
  answer_of([&](InferenceCall& call) -> Result<std::string> {
    EXPECT_EQ(&call.http, &request_);
    EXPECT_EQ(call.caller.timeout->timeout, std::chrono::milliseconds(1500));
    EXPECT_EQ(call.caller.timeout->since, request_.received_at);
    EXPECT_FALSE(call.caller.gone());
    return "{}";
  });
  request_.fields = {};
  request_.fields.add("x-request-timeout-ms", "-1");
  EXPECT_EQ(route(computed).admission(request_)->status, 400);
  EXPECT_EQ(route(computed, ErrorForm::kTei).admission(request_)->status, 422);
  EXPECT_EQ(answer_of(computed).status, 400);
}

TEST_F(InferenceRoute, TakesMemoryForItsRequestAndItsAnswerAndGivesItBack) {
  RequestMemory memory(size_t{1} << 20U, size_t{1} << 20U);
  context_.memory = &memory;
  size_t reading = 0, answering = 0;
  request_.body = R"({"input":"a"})";
  auto response = answer_of([&](InferenceCall& call) {
    reading = memory.reading.bytes_in_use();
    auto body = computed(call);
    answering = memory.answers.bytes_in_use();
    EXPECT_LE(memory.reading.bytes_in_use(), reading);
    return body;
  });
  EXPECT_EQ(response.status, 200);
  EXPECT_GT(reading, request_.body.size());
  EXPECT_GT(answering, 0U);
  EXPECT_EQ(memory.reading.bytes_in_use(), 0U);
  EXPECT_EQ(memory.answers.bytes_in_use(), answering);  // until it has been written
  response = {};
  EXPECT_EQ(memory.answers.bytes_in_use(), 0U);
}

TEST_F(InferenceRoute, WhoeverWaitsForMemoryWaitsNoLongerThanAskedFor) {
  RequestMemory memory(size_t{1} << 20U, size_t{1} << 20U);
  context_.memory = &memory;
  const auto held = memory.reading.take(1, size_t{800} << 10U, [] { return std::nullopt; });
  request_.body = R"({"input":")" + std::string(size_t{20} << 10U, 'a') + "\"}";
  request_.fields.add("x-request-timeout-ms", "100");
  const auto response = answer_of(computed);
  EXPECT_EQ(response.status, 504);
  EXPECT_THAT(response.body, HasSubstr("X-Request-Timeout-Ms"));
  EXPECT_LT(std::chrono::steady_clock::now() - request_.received_at, std::chrono::seconds(5));
}

TEST_F(InferenceRoute, WhileItComputesItHoldsNoMoreThanItsInputsTake) {
  RequestMemory memory(size_t{64} << 20U, size_t{1} << 20U);
  context_.memory = &memory;
  request_.body = R"({"input":")" + std::string(size_t{1} << 20U, 'a') + "\"}";
  size_t reading = 0, computing = 0;
  const auto reserves = [&](InferenceCall& call) {
    reading = memory.reading.bytes_in_use();
    const auto reserve = call.caller.reserve;
    call.caller.reserve = [&, reserve](size_t bytes, const Interruption& interruption) {
      auto error = reserve(bytes, interruption);
      computing = memory.reading.bytes_in_use();
      return error;
    };
    return computed(call);
  };
  EXPECT_EQ(answer_of(reserves).status, 200);
  EXPECT_GE(reading, size_t{10} << 20U);
  EXPECT_LT(computing, size_t{2} << 20U);
  EXPECT_GE(computing, size_t{1} << 20U);
}

TEST_F(InferenceRoute, WhatThereIsNoMemoryForIs413) {
  RequestMemory small_reading(100, size_t{1} << 20U);
  context_.memory = &small_reading;
  request_.body = R"({"input":["a","b"]})";
  auto response = answer_of(computed);
  EXPECT_EQ(response.status, 413);
  EXPECT_THAT(response.body, HasSubstr("reading this request would take"));
  RequestMemory small_answers(size_t{1} << 20U, 8);
  context_.memory = &small_answers;
  response = answer_of([](InferenceCall& call) -> Result<std::string> {
    EmbeddingRequest request;
    request.inputs = {TokenIds{1, 2, 3}};
    const auto answer = call.embed(request);
    EXPECT_FALSE(answer);
    return tl::unexpected(answer.error());
  });
  EXPECT_EQ(response.status, 413);
  EXPECT_THAT(response.body, HasSubstr("answering this request would take"));
  EXPECT_EQ(small_answers.reading.bytes_in_use() + small_answers.answers.bytes_in_use(), 0U);
}

}  // namespace
}  // namespace espalier::server
