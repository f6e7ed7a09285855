#include "server/service/inference_service.h"

#include <gmock/gmock.h>

#include <future>

#include "fake_model.h"

namespace espalier::server {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint32_t kEndOfText = 8187;
constexpr uint32_t kImEnd = 8189;

class Service : public testing::Test {
 protected:
  explicit Service(ServedModel model = fake_served_model(), scheduler::SchedulerLimits limits = {})
      : scheduler_({&forward_pass_}, limits, nullptr), service_(std::move(model), scheduler_) {}

  Result<EmbeddingAnswer> embed(const EmbeddingRequest& request) {
    return service_.embed(request, Caller{}, times_);
  }
  Result<EmbeddingAnswer> embed(EmbeddingInput input) {
    EmbeddingRequest request;
    request.inputs.push_back(std::move(input));
    request.single = true;
    return embed(request);
  }
  /// Tokens that the model saw of one input.
  size_t tokens_of(const EmbeddingRequest& request) {
    const auto answer = embed(request);
    EXPECT_TRUE(answer) << answer.error().message;
    return answer ? answer->prompt_tokens : 0;
  }

  FakeForwardPass forward_pass_;
  scheduler::Scheduler scheduler_;
  InferenceService service_;
  StageTimes times_;
};

EmbeddingRequest one_input(EmbeddingInput input) {
  EmbeddingRequest request;
  request.inputs.push_back(std::move(input));
  request.single = true;
  return request;
}

RerankRequest rerank_of(std::vector<std::string> documents) {
  RerankRequest request;
  request.query = "what is a tree";
  request.documents = std::move(documents);
  return request;
}

std::string words(size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += " word";
  return text;
}

TEST_F(Service, TextEndsWithTheEndTokenAndItsTokensAreCounted) {
  const auto answer = embed(std::string("a tree"));
  ASSERT_TRUE(answer) << answer.error().message;
  const size_t tokens = mini_tokenizer().encode("a tree").size();
  EXPECT_EQ(answer->prompt_tokens, tokens);
  ASSERT_EQ(answer->embeddings.size(), 1U);
  EXPECT_EQ(answer->embeddings[0][0], static_cast<float>(kEndOfText));
  EXPECT_EQ(answer->embeddings[0][1], static_cast<float>(tokens - 1));
}

TEST_F(Service, EmbeddingsComeInTheOrderOfTheInputs) {
  EmbeddingRequest request;
  for (size_t i = 1; i <= 20; ++i) request.inputs.emplace_back(TokenIds(i, 7));
  const auto answer = embed(request);
  ASSERT_TRUE(answer);
  for (size_t i = 0; i < 20; ++i)
    EXPECT_EQ(answer->embeddings[i][1], static_cast<float>(i + 1)) << i;  // the end token behind
}

TEST_F(Service, TokenIdsGetTheEndTokenUnlessTheyHaveIt) {
  EXPECT_EQ(embed(TokenIds{5, 6})->prompt_tokens, 3U);
  EXPECT_EQ(embed(TokenIds{5, 6, kEndOfText})->prompt_tokens, 3U);
}

TEST_F(Service, TokenIdThatTheModelLacksIsNamed) {
  const auto answer = embed(TokenIds{5, 8192});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, ErrorKind::kInvalidRequest);
  EXPECT_EQ(answer.error().param, "input[1]");
  EXPECT_THAT(answer.error().message, HasSubstr("8191"));
}

TEST_F(Service, DimensionsBeyondTheModelsAreRefused) {
  auto request = one_input(std::string("a"));
  request.dimensions = 4;
  EXPECT_EQ(embed(request)->embeddings[0].size(), 4U);
  request.dimensions = 5;
  ASSERT_FALSE(embed(request));
  EXPECT_EQ(embed(request).error().param, "dimensions");
  EXPECT_THAT(embed(request).error().message, HasSubstr("between 1 and 4"));
}

TEST_F(Service, NamedPromptAndInstructionComeBeforeTheText) {
  auto request = one_input(std::string("tree"));
  request.prompt_name = "query";
  EXPECT_EQ(tokens_of(request), mini_tokenizer().encode("Instruct: find it\nQuery:tree").size());
  request.prompt_name.reset();
  request.instruction = "name it";
  EXPECT_EQ(tokens_of(request), mini_tokenizer().encode("Instruct: name it\nQuery:tree").size());
}

TEST_F(Service, UnknownPromptNameListsThoseThereAre) {
  auto request = one_input(std::string("tree"));
  request.prompt_name = "qerry";
  const auto answer = embed(request);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().param, "prompt_name");
  EXPECT_THAT(answer.error().message, HasSubstr("\"document\", \"query\""));
}

TEST_F(Service, PromptsAreForTextNotForTokenIds) {
  auto request = one_input(TokenIds{5});
  request.prompt_name = "query";
  EXPECT_EQ(embed(request).error().param, "input");
  request.prompt_name = "document";  // an empty prompt changes nothing
  EXPECT_TRUE(embed(request));
}

TEST_F(Service, AddedTokensAreRecognisedInEmbeddingInputsAsByHuggingFace) {
  const auto special = std::string("<|im_end|>");
  EXPECT_EQ(tokens_of(one_input(special)), 2U);  // the token and the end
  auto request = one_input(special);
  request.prompt_name = "query";
  auto with_text = one_input(std::string("x"));
  with_text.prompt_name = "query";
  EXPECT_EQ(tokens_of(request), tokens_of(with_text));
}

TEST_F(Service, LongInputIsCutButKeepsItsEndToken) {
  const auto answer = embed(words(500));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->prompt_tokens, 128U);
  EXPECT_EQ(answer->embeddings[0][0], static_cast<float>(kEndOfText));
  EXPECT_EQ(embed(TokenIds(500, 7))->prompt_tokens, 128U);
  EXPECT_EQ(embed(TokenIds(127, 7))->prompt_tokens, 128U);
}

TEST_F(Service, LongInputWithoutTruncationIsNamed) {
  EmbeddingRequest request;
  request.inputs = {std::string("short"), words(500)};
  request.truncate = false;
  const auto answer = embed(request);
  ASSERT_FALSE(answer);
  EXPECT_EQ(http_status(answer.error().kind), 400);
  EXPECT_EQ(answer.error().param, "input[1]");
  EXPECT_EQ(answer.error().code, "context_length_exceeded");
  request.inputs.pop_back();
  EXPECT_TRUE(embed(request));
}

TEST_F(Service, InputWithoutAnyTokenNeverReachesTheScheduler) {
  EXPECT_EQ(embed(std::string()).error().param, "input");
  EXPECT_EQ(embed(TokenIds{}).error().param, "input");
}

TEST_F(Service, DocumentsAreRankedBestFirstTiesByIndex) {
  // The fake's relevance falls with the length.
  const auto answer =
      service_.rerank(rerank_of({words(9), words(3), words(1), words(3), ""}), Caller{}, times_);
  ASSERT_TRUE(answer) << answer.error().message;
  std::vector<size_t> order;
  for (const auto& document : answer->results) order.push_back(document.index);
  EXPECT_THAT(order, ElementsAre(4, 2, 1, 3, 0));
  EXPECT_EQ(answer->results[2].relevance_score, answer->results[3].relevance_score);
}

TEST_F(Service, TopNCutsTheRanking) {
  auto request = rerank_of({"a", "b", "c"});
  request.top_n = 2;
  EXPECT_EQ(service_.rerank(request, Caller{}, times_)->results.size(), 2U);
  request.top_n = 50;
  EXPECT_EQ(service_.rerank(request, Caller{}, times_)->results.size(), 3U);
}

TEST_F(Service, LongDocumentIsCutOrNamed) {
  auto request = rerank_of({"short", words(500)});
  const auto answer = service_.rerank(request, Caller{}, times_);
  ASSERT_TRUE(answer);
  EXPECT_LT(answer->prompt_tokens, 2 * 128U);
  EXPECT_GT(answer->prompt_tokens, 128U);
  request.truncate = false;
  const auto refused = service_.rerank(request, Caller{}, times_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().param, "documents[1]");
  EXPECT_EQ(refused.error().code, "context_length_exceeded");
}

TEST_F(Service, QueryThatFillsTheTemplateIsNamed) {
  auto request = rerank_of({"a"});
  request.query = words(500);
  const auto answer = service_.rerank(request, Caller{}, times_);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().param, "query");
}

TEST_F(Service, DocumentForgesNoSpecialToken) {
  const auto tokens_with = [&](const std::string& document) {
    return service_.rerank(rerank_of({document}), Caller{}, times_)->prompt_tokens;
  };
  EXPECT_GT(tokens_with("<|im_end|>"), tokens_with("x") + 3);
  EXPECT_EQ(mini_tokenizer().token_id("<|im_end|>"), kImEnd);
}

TEST_F(Service, ModelWithoutTemplateSaysThatItCannotRerank) {
  auto model = fake_served_model();
  model.rerank_prompt.reset();
  const InferenceService service(model, scheduler_);
  const auto answer = service.rerank(rerank_of({"a"}), Caller{}, times_);
  ASSERT_FALSE(answer);
  EXPECT_EQ(http_status(answer.error().kind), 400);
  EXPECT_THAT(answer.error().message, HasSubstr("cannot rerank"));
}

TEST_F(Service, NonFiniteScoreIsAnInternalError) {
  auto model = fake_served_model();
  model.relevance = [](std::span<const float>) { return std::nanf(""); };
  const InferenceService service(model, scheduler_);
  const auto answer = service.rerank(rerank_of({"a"}), Caller{}, times_);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, ErrorKind::kInternal);
}

TEST_F(Service, LimitWithoutRoomForTextIsAStartUpError) {
  auto model = fake_served_model();
  model.max_input_tokens = 1;
  EXPECT_THROW(InferenceService(model, scheduler_), std::runtime_error);
}

TEST_F(Service, FailedForwardPassIsAnInternalErrorAndTheNextRequestWorks) {
  forward_pass_.fail(true);
  const auto answer = embed(std::string("a"));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, ErrorKind::kInternal);
  forward_pass_.fail(false);
  EXPECT_TRUE(embed(std::string("a")));
}

TEST_F(Service, RequestWhoseClientHasGoneIsCancelled) {
  forward_pass_.close();
  auto blocked = std::async(std::launch::async, [&] {
    StageTimes times;
    return service_.embed(one_input(std::string("first")), Caller{}, times);
  });
  forward_pass_.await_running();
  std::atomic<bool> gone = false;
  auto waiting = std::async(std::launch::async, [&] {
    StageTimes times;
    Caller caller;
    caller.gone = [&] { return gone.load(); };
    return service_.embed(one_input(std::string("second")), caller, times);
  });
  gone = true;
  const auto answer = waiting.get();  // returns although nothing is computed
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, ErrorKind::kClientGone);
  forward_pass_.open();
  EXPECT_TRUE(blocked.get());
}

TEST_F(Service, RequestThatTakesTooLongMeetsItsDeadline) {
  auto model = fake_served_model();
  model.request_timeout = std::chrono::seconds(1);
  const InferenceService service(model, scheduler_);
  forward_pass_.close();
  const auto answer = service.embed(one_input(std::string("a")), Caller{}, times_);
  forward_pass_.open();
  ASSERT_FALSE(answer);
  EXPECT_EQ(http_status(answer.error().kind), 504);
}

TEST_F(Service, ClientThatWaitsOnlySoLongIsToldSo) {
  forward_pass_.close();
  Caller caller;
  caller.timeout = AskedTimeout{std::chrono::milliseconds(30), scheduler::Clock::now()};
  const auto answer = service_.embed(one_input(std::string("a")), caller, times_);
  forward_pass_.open();
  ASSERT_FALSE(answer);
  EXPECT_EQ(http_status(answer.error().kind), 504);
  EXPECT_THAT(answer.error().message,
              AllOf(HasSubstr("30 ms"), HasSubstr("X-Request-Timeout-Ms"), HasSubstr("fewer")));
}

TEST_F(Service, TokenizingCountsAsWaiting) {
  Caller caller;  // its time was up before the first input was looked at
  caller.timeout = AskedTimeout{std::chrono::milliseconds(30),
                                scheduler::Clock::now() - std::chrono::seconds(1)};
  const auto answer = service_.embed(one_input(std::string("a")), caller, times_);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, ErrorKind::kDeadlineExceeded);
}

TEST_F(Service, DrainingSchedulerIs503) {
  scheduler_.drain(std::chrono::seconds(1));
  const auto answer = embed(std::string("a"));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, ErrorKind::kShuttingDown);
}

class ServiceWithASmallTable : public Service {
 protected:
  ServiceWithASmallTable() : Service(small_table()) {}
  /// The tokenizer knows <|im_end|>, the model does not.
  static ServedModel small_table() {
    ServedModel model = fake_served_model();
    model.vocab_size = kImEnd;
    return model;
  }
};

TEST_F(ServiceWithASmallTable, SpecialTokenInATextThatTheModelLacksIs400) {
  EXPECT_TRUE(embed(std::string("plain")));
  const auto answer = embed(std::string("a <|im_end|>"));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, ErrorKind::kInvalidRequest);
  EXPECT_EQ(answer.error().param, "input");
}

class ServiceWithASmallQueue : public Service {
 protected:
  ServiceWithASmallQueue() : Service(fake_served_model(), limits()) {}
  static scheduler::SchedulerLimits limits() {
    scheduler::SchedulerLimits limits;
    limits.queue_tickets_max = 4;
    return limits;
  }
};

TEST_F(ServiceWithASmallQueue, RequestThatCouldNeverFitIs400) {
  EmbeddingRequest request;
  for (int i = 0; i < 5; ++i) request.inputs.emplace_back(TokenIds{5});
  const auto answer = embed(request);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, ErrorKind::kInvalidRequest);
  EXPECT_EQ(answer.error().param, "input");
}

TEST_F(ServiceWithASmallQueue, FullQueueIs429WithADelay) {
  forward_pass_.close();
  EmbeddingRequest request;  // outlives the threads that the futures wait for
  std::vector<std::future<Result<EmbeddingAnswer>>> answers;
  // Four wait in the queue; a few more are with planner and worker.
  std::optional<ApiError> refused;
  for (int i = 0; i < 4; ++i) request.inputs.emplace_back(TokenIds{5});
  for (int i = 0; i < 20; ++i) {
    answers.push_back(std::async(std::launch::async, [&] {
      StageTimes times;
      return service_.embed(request, Caller{}, times);
    }));
  }
  while (!refused) {
    for (auto& answer : answers) {
      if (!answer.valid() ||
          answer.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready)
        continue;
      if (const auto result = answer.get(); !result) refused = result.error();
    }
  }
  forward_pass_.open();
  EXPECT_EQ(refused->kind, ErrorKind::kOverloaded);
  EXPECT_GE(refused->retry_after, std::chrono::seconds(1));
}

}  // namespace
}  // namespace espalier::server
