#include "server/service/inference_service.h"

#include <gmock/gmock.h>

#include <future>

#include "fake_model.h"
#include "server/service/model_inputs.h"
#include "server/service/token_budget.h"

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
    report_ = {};
    return service_.embed(request, Caller{}, report_);
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
    return report_.tokens;
  }
  size_t tokens_of(EmbeddingInput input) {
    EXPECT_TRUE(embed(std::move(input)));
    return report_.tokens;
  }
  Result<ScoreAnswer> score(const ScoreRequest& request) {
    report_ = {};
    return service_.score(request, Caller{}, report_);
  }

  FakeForwardPass forward_pass_;
  scheduler::Scheduler scheduler_;
  InferenceService service_;
  RequestReport report_;
};

EmbeddingRequest one_input(EmbeddingInput input) {
  EmbeddingRequest request;
  request.inputs.push_back(std::move(input));
  request.single = true;
  return request;
}

ScoreRequest rerank_of(std::vector<std::string> documents) {
  ScoreRequest request;
  request.queries.push_back("what is a tree");
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
  EXPECT_EQ(report_.tokens, tokens);
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
  EXPECT_EQ(tokens_of(TokenIds{5, 6}), 3U);
  EXPECT_EQ(tokens_of(TokenIds{5, 6, kEndOfText}), 3U);
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
  request.options.prompt_name = "query";
  EXPECT_EQ(tokens_of(request), mini_tokenizer().encode("Instruct: find it\nQuery:tree").size());
  request.options.prompt_name.reset();
  request.options.instruction = "name it";
  EXPECT_EQ(tokens_of(request), mini_tokenizer().encode("Instruct: name it\nQuery:tree").size());
}

TEST_F(Service, PromptThatLeavesNoRoomForTextIsNamed) {
  for (const auto truncation : {Truncation::kCutEnd, Truncation::kCutStart, Truncation::kRefuse}) {
    auto request = one_input(std::string("a"));
    request.options.truncation = truncation;
    request.options.instruction = words(500);
    EXPECT_EQ(embed(request).error().param, "instruction");
    EXPECT_EQ(embed(request).error().code, "context_length_exceeded");
    request.options.instruction.reset();
    request.options.prompt_name = "query";
    request.options.tokens_max = 3;
    EXPECT_EQ(embed(request).error().param, "prompt_name");
    request.options.prompt_name = "document";
    EXPECT_TRUE(embed(request));
  }
}

TEST_F(Service, TooManyTokensEndARequestBeforeAllAreThere) {
  const InferenceService service(fake_served_model(), scheduler_, nullptr, {2048, 1000});
  EmbeddingRequest request;
  for (size_t i = 0; i < 2048; ++i) request.inputs.emplace_back(words(100));
  const auto refused = service.embed(request, Caller{}, report_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, kTooLargeCode);
  EXPECT_EQ(refused.error().param, "input");
  ScoreRequest pairs;
  pairs.queries.assign(2048, words(10));
  pairs.documents.assign(2048, "a");
  EXPECT_EQ(service.score(pairs, Caller{}, report_).error().code, kTooLargeCode);
}

TEST_F(Service, UnknownPromptNameListsThoseThereAre) {
  auto request = one_input(std::string("tree"));
  request.options.prompt_name = "qerry";
  const auto answer = embed(request);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().param, "prompt_name");
  EXPECT_THAT(answer.error().message, HasSubstr("\"document\", \"query\""));
}

TEST_F(Service, PromptsAreForTextNotForTokenIds) {
  auto request = one_input(TokenIds{5});
  request.options.prompt_name = "query";
  EXPECT_EQ(embed(request).error().param, "input");
  request.options.prompt_name = "document";  // an empty prompt changes nothing
  EXPECT_TRUE(embed(request));
}

TEST_F(Service, AddedTokensAreRecognisedInEmbeddingInputsAsByHuggingFace) {
  const auto special = std::string("<|im_end|>");
  EXPECT_EQ(tokens_of(one_input(special)), 2U);  // the token and the end
  auto request = one_input(special);
  request.options.prompt_name = "query";
  auto with_text = one_input(std::string("x"));
  with_text.options.prompt_name = "query";
  EXPECT_EQ(tokens_of(request), tokens_of(with_text));
}

TEST_F(Service, LongInputIsCutButKeepsItsEndToken) {
  const auto answer = embed(words(500));
  ASSERT_TRUE(answer);
  EXPECT_EQ(report_.tokens, 128U);
  EXPECT_EQ(answer->embeddings[0][0], static_cast<float>(kEndOfText));
  EXPECT_EQ(tokens_of(TokenIds(500, 7)), 128U);
  EXPECT_EQ(tokens_of(TokenIds(127, 7)), 128U);
}

TEST_F(Service, LongInputWithoutTruncationIsNamed) {
  EmbeddingRequest request;
  request.inputs = {std::string("short"), words(500)};
  request.options.truncation = Truncation::kRefuse;
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

TEST(BestFirst, TiesAreInTheOrderOfTheirIndices) {
  std::vector<size_t> order;
  for (const auto& document : best_first({-1, 2, 0.5, 2, 3}, std::nullopt))
    order.push_back(document.index);
  EXPECT_THAT(order, ElementsAre(4, 1, 3, 2, 0));
}

TEST(BestFirst, TopNCutsTheRanking) {
  EXPECT_EQ(best_first({1, 2, 3}, 2).size(), 2U);
  EXPECT_EQ(best_first({1, 2, 3}, 50).size(), 3U);
}

TEST(Relevance, IsTheSigmoidOfTheLogit) {
  EXPECT_EQ(relevance(0), 0.5F);
  EXPECT_FLOAT_EQ(relevance(1.5), 0.81757448F);
  EXPECT_EQ(relevance(-1e9), 0.0F);
  EXPECT_EQ(relevance(1e9), 1.0F);
}

TEST_F(Service, DocumentsAreScoredInTheirOrder) {
  // The fake's logit falls with the length.
  const auto answer = score(rerank_of({words(9), words(3), "", words(3)}));
  ASSERT_TRUE(answer) << answer.error().message;
  ASSERT_EQ(answer->logits.size(), 4U);
  EXPECT_LT(answer->logits[0], answer->logits[1]);
  EXPECT_LT(answer->logits[1], answer->logits[2]);
  EXPECT_EQ(answer->logits[1], answer->logits[3]);
}

TEST_F(Service, PairsAreScoredAsTheyAreAlone) {
  ScoreRequest pairs = rerank_of({words(2), words(5)});
  pairs.queries = {words(7), "short"};
  const auto together = score(pairs);
  ASSERT_TRUE(together);
  for (size_t i = 0; i < 2; ++i) {
    ScoreRequest alone = rerank_of({pairs.documents[i]});
    alone.queries = {pairs.queries[i]};
    EXPECT_EQ(score(alone)->logits[0], together->logits[i]) << i;
  }
}

TEST_F(Service, LongDocumentIsCutOrNamed) {
  auto request = rerank_of({"short", words(500)});
  ASSERT_TRUE(score(request));
  EXPECT_LT(report_.tokens, 2 * 128U);
  EXPECT_GT(report_.tokens, 128U);
  request.truncation = Truncation::kRefuse;
  const auto refused = score(request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().param, "documents[1]");
  EXPECT_EQ(refused.error().code, "context_length_exceeded");
}

TEST_F(Service, DocumentsAndQueriesAreCutToTheirOwnLimits) {
  auto request = rerank_of({words(20)});
  ASSERT_TRUE(score(request));
  const size_t whole = report_.tokens;
  request.document_tokens_max = 5;
  ASSERT_TRUE(score(request));
  EXPECT_EQ(report_.tokens, whole - 15);
  request.truncation = Truncation::kRefuse;  // that was asked for: nothing is too long
  EXPECT_TRUE(score(request));
  request.queries = {words(9)};
  ASSERT_TRUE(score(request));
  const size_t with_whole_query = report_.tokens;
  request.query_tokens_max = 4;
  ASSERT_TRUE(score(request));
  EXPECT_EQ(report_.tokens, with_whole_query - 5);
}

TEST_F(Service, QueryThatFillsTheTemplateIsNamed) {
  auto request = rerank_of({"a"});
  request.queries = {words(500)};
  EXPECT_EQ(score(request).error().param, "query");
  request.queries = {"short", words(500)};
  request.documents = {"a", "b"};
  EXPECT_EQ(score(request).error().param, "query[1]");
  request.queries = {"short"};
  request.tokens_max = 3;
  EXPECT_EQ(score(request).error().param, "truncate_prompt_tokens");
}

TEST_F(Service, QueryThatLeavesNoTokenForADocumentIsNamed) {
  auto request = rerank_of({""});
  ASSERT_TRUE(score(request));
  const size_t alone = report_.tokens;
  request.documents = {"word"};
  for (const size_t limit : {alone - 1, alone}) {
    request.tokens_max = limit;
    const auto answer = score(request);
    ASSERT_FALSE(answer) << limit;
    EXPECT_EQ(answer.error().param, "query");
  }
  request.tokens_max = alone + 1;
  EXPECT_TRUE(score(request));
}

TEST_F(Service, DocumentForgesNoSpecialToken) {
  const auto tokens_with = [&](const std::string& document) {
    EXPECT_TRUE(score(rerank_of({document})));
    return report_.tokens;
  };
  EXPECT_GT(tokens_with("<|im_end|>"), tokens_with("x") + 3);
  EXPECT_EQ(mini_tokenizer().token_id("<|im_end|>"), kImEnd);
}

TEST_F(Service, ModelWithoutTemplateSaysThatItCannotRerank) {
  auto model = fake_served_model();
  model.rerank_prompt.reset();
  model.cannot_rerank = "it was not made for it";
  const InferenceService service(model, scheduler_);
  const auto answer = service.score(rerank_of({"a"}), Caller{}, report_);
  ASSERT_FALSE(answer);
  EXPECT_EQ(http_status(answer.error().kind), 400);
  EXPECT_EQ(answer.error().code, "model_cannot_rerank");
  EXPECT_THAT(answer.error().message, HasSubstr("cannot rerank: it was not made for it"));
}

TEST_F(Service, ModelThatOnlyReranksSaysThatItCannotEmbed) {
  auto model = fake_served_model();
  model.cannot_embed = "it is a reranker";
  const InferenceService service(model, scheduler_);
  for (const bool tokens : {false, true}) {
    const auto request = one_input(std::string("a"));
    const ApiError error = tokens ? service.embed_tokens(request, Caller{}, report_).error()
                                  : service.embed(request, Caller{}, report_).error();
    EXPECT_EQ(error.code, "model_cannot_embed");
    EXPECT_THAT(error.message, HasSubstr("it is a reranker"));
  }
}

TEST_F(Service, WithoutATemplateDocumentsAreRankedByCosine) {
  auto model = fake_served_model();
  model.rerank_prompt.reset();
  model.relevance_logit = nullptr;
  // Of the last token's id and position: a direction for each.
  model.embed = [](std::span<const float> hidden, std::optional<size_t>, std::optional<bool>) {
    const float angle = hidden[0] / 8192;
    return std::vector<float>{std::cos(angle), std::sin(angle)};
  };
  const InferenceService service(model, scheduler_);
  auto request = rerank_of({"other", "tree", "tree"});
  request.queries = {"tree"};
  const auto answer = service.score(request, Caller{}, report_);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->scale, ScoreScale::kCosine);
  ASSERT_EQ(answer->logits.size(), 3U);
  EXPECT_NEAR(answer->logits[1], 1.0, 1e-6);
  EXPECT_EQ(answer->logits[1], answer->logits[2]);
  EXPECT_LE(answer->logits[0], 1.0);
  EXPECT_EQ(relevance(1, ScoreScale::kCosine), 1.0F);
  EXPECT_EQ(relevance(-1, ScoreScale::kCosine), 0.0F);
  EXPECT_EQ(relevance(0, ScoreScale::kCosine), 0.5F);
}

TEST_F(Service, AnInstructionNeedsAPlaceInTheTemplate) {
  auto model = fake_served_model();
  model.rerank_prompt.emplace(mini_tokenizer(),
                              text::parse_plain_template("{query} {document}", "bare"));
  const InferenceService service(model, scheduler_);
  auto request = rerank_of({"a"});
  EXPECT_TRUE(service.score(request, Caller{}, report_));
  request.instruction = "find";
  const auto answer = service.score(request, Caller{}, report_);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().param, "instruction");
  EXPECT_THAT(answer.error().message, HasSubstr("bare"));
}

TEST_F(Service, DimensionsAreThoseOfTheModelsList) {
  auto model = fake_served_model();
  model.dimensions = {2, 3};
  const InferenceService service(model, scheduler_);
  auto request = one_input(std::string("a"));
  for (const size_t dimensions : {2U, 3U, 4U}) {
    request.dimensions = dimensions;
    EXPECT_TRUE(service.embed(request, Caller{}, report_)) << dimensions;
  }
  for (const size_t dimensions : {0U, 1U, 5U}) {
    request.dimensions = dimensions;
    const auto answer = service.embed(request, Caller{}, report_);
    ASSERT_FALSE(answer) << dimensions;
    EXPECT_THAT(answer.error().message, HasSubstr("must be one of 2, 3, 4"));
  }
}

TEST_F(Service, EmbeddingsArePooledAsTheModelSays) {
  auto model = fake_served_model();
  const auto ids = mini_tokenizer().encode("one two three");
  const auto first_value = [&](scheduler::WantedRows pooled) {
    model.pooled = pooled;
    const InferenceService service(model, scheduler_);
    return service.embed(one_input(std::string("one two three")), Caller{}, report_)
        ->embeddings[0][1];  // the position
  };
  EXPECT_EQ(first_value(scheduler::WantedRows::kFirst), 0.0F);
  EXPECT_EQ(first_value(scheduler::WantedRows::kLast), static_cast<float>(ids.size() - 1));
  EXPECT_EQ(first_value(scheduler::WantedRows::kMean), static_cast<float>(ids.size() - 1) / 2);
}

TEST_F(Service, NonFiniteScoreIsAnInternalError) {
  auto model = fake_served_model();
  model.relevance_logit = [](std::span<const float>) { return std::nan(""); };
  const InferenceService service(model, scheduler_);
  const auto answer = service.score(rerank_of({"a"}), Caller{}, report_);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, ErrorKind::kInternal);
}

TEST_F(Service, InputTypeTakesThePromptThatTheModelHasForIt) {
  auto request = one_input(std::string("tree"));
  request.options.input_type = InputType::kQuery;
  EXPECT_EQ(tokens_of(request), mini_tokenizer().encode("Instruct: find it\nQuery:tree").size());
  request.options.input_type = InputType::kDocument;
  EXPECT_EQ(tokens_of(request), mini_tokenizer().encode("tree").size());
  request.options.input_type = InputType::kClustering;  // it has none
  EXPECT_EQ(tokens_of(request), mini_tokenizer().encode("tree").size());
  request.options.instruction = "cluster it";
  EXPECT_EQ(embed(request).error().param, "instruction");
  request.options.input_type = InputType::kQuery;
  EXPECT_EQ(tokens_of(request), mini_tokenizer().encode("Instruct: cluster it\nQuery:tree").size());
}

TEST_F(Service, StartOfATextIsCutBehindItsPrompt) {
  auto request = one_input(words(300) + " end");
  request.options.prompt_name = "query";
  request.options.truncation = Truncation::kCutStart;
  EXPECT_EQ(tokens_of(request), 128U);
  request.wants_trie = true;
  const auto answer = embed(request);
  ASSERT_TRUE(answer);
  EXPECT_THAT(answer->trie->nodes[0].text, testing::StartsWith("Instruct: find it\nQuery: word"));
  EXPECT_EQ(answer->embeddings[0][0], static_cast<float>(kEndOfText));
}

TEST_F(Service, FewerTokensThanTheModelTakesMayBeAskedFor) {
  auto request = one_input(words(100));
  request.options.tokens_max = 10;
  EXPECT_EQ(tokens_of(request), 10U);
  request.options.truncation = Truncation::kRefuse;
  EXPECT_EQ(embed(request).error().code, "context_length_exceeded");
  request.options.tokens_max = 1;  // the end token's
  EXPECT_EQ(embed(request).error().param, "truncate_prompt_tokens");
}

TEST_F(Service, SpecialTokensMayBeLeftOut) {
  auto request = one_input(std::string("a tree"));
  const size_t with = tokens_of(request);
  request.options.add_special_tokens = false;
  EXPECT_EQ(tokens_of(request), with - 1);
  request.inputs = {TokenIds{5, 6}};
  EXPECT_EQ(tokens_of(request), 2U);
}

TEST_F(Service, EveryTokensHiddenStateComesInItsOrder) {
  EmbeddingRequest request;
  request.inputs = {TokenIds{5, 6, 7}, TokenIds{5, 6}};
  const auto answer = service_.embed_tokens(request, Caller{}, report_);
  ASSERT_TRUE(answer) << answer.error().message;
  ASSERT_EQ(answer->hidden_size, 4U);
  ASSERT_EQ(answer->hidden_states[0].size(), 4 * 4U);  // with the end token
  ASSERT_EQ(answer->hidden_states[1].size(), 3 * 4U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(answer->hidden_states[i][4 * 1], 6.0F);      // id
    EXPECT_EQ(answer->hidden_states[i][4 * 1 + 1], 1.0F);  // position
  }
  EXPECT_EQ(answer->hidden_states[1][4 * 2], static_cast<float>(kEndOfText));
}

TEST_F(Service, ReportSaysWhatTheRequestCost) {
  EmbeddingRequest request;
  request.inputs = {TokenIds{5, 6, 7}, TokenIds{5, 6, 8}, std::string("ä b")};
  ASSERT_TRUE(embed(request));
  EXPECT_EQ(report_.inputs, 3U);
  EXPECT_EQ(report_.characters, 3U);
  const size_t text = mini_tokenizer().encode("ä b").size();
  EXPECT_EQ(report_.tokens, 8 + text);
  EXPECT_EQ(report_.new_rows, 6 + text);  // 5 and 6 are shared
}

TEST_F(Service, TrieOfARequestTellsWhatItsInputsShare) {
  EmbeddingRequest request;
  request.inputs = {std::string("a tree"), std::string("a house"), TokenIds{5}};
  request.wants_trie = true;
  const auto answer = embed(request);
  ASSERT_TRUE(answer);
  const RequestTrie& trie = *answer->trie;
  EXPECT_EQ(trie.inputs, 3U);
  EXPECT_EQ(trie.tokens, report_.tokens);
  EXPECT_EQ(trie.rows, report_.new_rows);
  EXPECT_EQ(trie.hidden_nodes, 0U);
  ASSERT_EQ(trie.nodes.size(), 4U);
  const auto shared = std::ranges::find(trie.nodes, 2U, &RequestTrie::Node::inputs);
  ASSERT_NE(shared, trie.nodes.end());
  EXPECT_EQ(shared->text, "a");
  EXPECT_FALSE(shared->parent);
  size_t rows = 0;
  for (const auto& node : trie.nodes) rows += node.tokens;
  EXPECT_EQ(rows, trie.rows);
}

TEST_F(Service, LimitsOfARequestAreItsOwnErrors) {
  const InferenceService service(fake_served_model(), scheduler_, nullptr, {2, 9});
  EmbeddingRequest request;
  request.inputs = {TokenIds{5}, TokenIds{6}, TokenIds{7}};
  auto refused = service.embed(request, Caller{}, report_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "too_many_inputs");
  EXPECT_THAT(refused.error().message, HasSubstr("3 entries; at most 2"));
  request.inputs = {TokenIds(4, 5), TokenIds(4, 6)};
  refused = service.embed(request, Caller{}, report_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "request_too_large");
  EXPECT_THAT(refused.error().message,
              HasSubstr("more tokens in all than one request may have: at most 9"));
  EXPECT_EQ(service.score(rerank_of({"a", "b", "c"}), Caller{}, report_).error().param,
            "documents");
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
    RequestReport report;
    return service_.embed(one_input(std::string("first")), Caller{}, report);
  });
  forward_pass_.await_running();
  std::atomic<bool> gone = false;
  auto waiting = std::async(std::launch::async, [&] {
    RequestReport report;
    Caller caller;
    caller.gone = [&] { return gone.load(); };
    return service_.embed(one_input(std::string("second")), caller, report);
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
  const auto answer = service.embed(one_input(std::string("a")), Caller{}, report_);
  forward_pass_.open();
  ASSERT_FALSE(answer);
  EXPECT_EQ(http_status(answer.error().kind), 504);
}

TEST_F(Service, ClientThatWaitsOnlySoLongIsToldSo) {
  forward_pass_.close();
  Caller caller;
  caller.timeout = AskedTimeout{std::chrono::milliseconds(30), scheduler::Clock::now()};
  const auto answer = service_.embed(one_input(std::string("a")), caller, report_);
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
  const auto answer = service_.embed(one_input(std::string("a")), caller, report_);
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

TEST_F(ServiceWithASmallTable, TokenOfAPromptThatTheModelLacksIs400) {
  const auto answer = score(rerank_of({"a document"}));  // the template has <|im_end|>
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, ErrorKind::kInvalidRequest);
  EXPECT_EQ(answer.error().param, "documents[0]");
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
      RequestReport report;
      return service_.embed(request, Caller{}, report);
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

TEST(EmbeddingTokenIds, WhatIsCutOffATextTakesNoMemory) {
  const ServedModel model = fake_served_model();
  EmbeddingRequest request;
  std::string text;
  for (size_t i = 0; i < 100'000; ++i) text += "a tree ";
  request.inputs = {text};
  request.options.truncation = Truncation::kCutStart;
  request.options.tokens_max = 8;
  const EachInput each = [](size_t count, const InputTask& task) {
    std::optional<ApiError> error;
    for (size_t i = 0; i < count && !error; ++i) error = task(i);
    return error;
  };
  TokenBudget budget(100, "input");
  const auto ids = embedding_token_ids(model, request, each, budget);
  ASSERT_TRUE(ids) << ids.error().message;
  EXPECT_EQ(ids->front().size(), 8U);
  EXPECT_LE(ids->front().capacity(), 100U);
}

}  // namespace
}  // namespace espalier::server
