#include "scheduler/batch_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/unit/scheduler/request_fixture.h"

namespace espalier::scheduler {
namespace {

using engine::DedupMode;
using testing::admit;
using testing::choose;
using ::testing::ElementsAre;
using testing::first_tokens;
using testing::for_model;
using testing::from_client;
using testing::last_tokens;
using testing::no_bounds;
using testing::queue_of;
using testing::submission_of;
using ::testing::UnorderedElementsAre;

/// How many of the sequences of `submission` the policy takes into the first batch.
size_t batch_size(DedupMode dedup, size_t rows, size_t full_rows, Submission submission) {
  const auto queue = queue_of();
  const auto request = admit(queue, std::move(submission));
  BatchRules rules = no_bounds();
  rules.rows_max = rows;
  rules.full_rows_max = full_rows;
  return choose(*queue, rules, dedup).tickets.size();
}

BatchRules rows(size_t rows_max) {
  BatchRules rules = no_bounds();
  rules.rows_max = rows_max;
  return rules;
}

/// A queue for batches of `rows`: an eighth of that is light.
std::shared_ptr<TicketQueue> queue_for_rows(size_t rows) {
  SchedulerLimits limits;
  limits.batch_rows_max = rows;
  return queue_of(1, testing::kNoLimit, limits);
}

/// A queue in which every client has more waiting than a light one.
std::shared_ptr<TicketQueue> busy_queue() { return queue_for_rows(8); }

/// `prefix` times `length`, then `own`.
std::vector<uint32_t> text(uint32_t prefix, size_t length, std::vector<uint32_t> own) {
  std::vector<uint32_t> ids(length, prefix);
  ids.insert(ids.end(), own.begin(), own.end());
  return ids;
}

TEST(BatchPolicy, FillsABatchToItsLastRow) {
  const auto sequences = submission_of({{1, 2}, {3, 4}, {5, 6}});
  EXPECT_EQ(batch_size(DedupMode::kTrie, 4, 100, sequences), 2U);
  EXPECT_EQ(batch_size(DedupMode::kTrie, 5, 100, sequences), 2U);
  EXPECT_EQ(batch_size(DedupMode::kTrie, 6, 100, sequences), 3U);
}

TEST(BatchPolicy, CountsSharedRowsOnceWhereTheyAreComputedOnce) {
  const auto sequences = submission_of({{1, 2, 3}, {1, 2, 4}, {1, 2, 5}});
  EXPECT_EQ(batch_size(DedupMode::kTrie, 5, 100, sequences), 3U);
  EXPECT_EQ(batch_size(DedupMode::kRadixMlp, 5, 100, sequences), 3U);
  EXPECT_EQ(batch_size(DedupMode::kOff, 5, 100, sequences), 1U);
  EXPECT_EQ(batch_size(DedupMode::kOff, 9, 100, sequences), 3U);
}

TEST(BatchPolicy, CapsFullRows) {
  const auto sequences = submission_of({{1, 2, 3}, {1, 2, 4}, {1, 2, 5}});
  for (const DedupMode dedup : {DedupMode::kTrie, DedupMode::kRadixMlp, DedupMode::kOff}) {
    EXPECT_EQ(batch_size(dedup, 100, 6, sequences), 2U);
    EXPECT_EQ(batch_size(dedup, 100, 8, sequences), 2U);
  }
}

TEST(BatchPolicy, ASequenceLargerThanABatchRunsAlone) {
  EXPECT_EQ(batch_size(DedupMode::kTrie, 2, 2, submission_of({{1, 2, 3}, {1}})), 1U);
  EXPECT_EQ(batch_size(DedupMode::kTrie, 2, 2, submission_of({{1, 2, 3}, {4}})), 1U);
  EXPECT_EQ(batch_size(DedupMode::kOff, 2, 2, submission_of({{1, 2, 3}, {1}})), 1U);
  EXPECT_EQ(batch_size(DedupMode::kTrie, 2, 2, submission_of({{4}, {1, 2, 3}})), 1U);
}

TEST(BatchPolicy, NobodyOvertakesTheTicketInTurnThatDidNotFit) {
  const auto sequences = submission_of({{1, 2}, {3, 4, 5}, {6}});
  EXPECT_EQ(batch_size(DedupMode::kTrie, 4, 100, sequences), 1U);
}

TEST(BatchPolicy, TheTicketInTurnBringsThoseThatShareMostWithIt) {
  const auto queue = busy_queue();
  const auto request =
      admit(queue, submission_of({text(1, 8, {10}), text(2, 8, {20}), text(1, 4, {5, 30}),
                                  text(2, 8, {40}), text(1, 8, {50})}));
  EXPECT_THAT(last_tokens(choose(*queue, no_bounds()).tickets), ElementsAre(10, 50, 30, 20, 40));
  EXPECT_THAT(last_tokens(choose(*queue, rows(10)).tickets), ElementsAre(10, 50));
  EXPECT_THAT(last_tokens(choose(*queue, no_bounds(), DedupMode::kOff).tickets),
              ElementsAre(10, 20, 30, 40, 50));
}

TEST(BatchPolicy, ANeighbourThatDoesNotFitLeavesRoomForOneThatDoes) {
  const auto queue = busy_queue();
  const auto request = admit(queue, submission_of({text(1, 8, {10}), text(1, 8, {20, 21, 22, 23}),
                                                   text(1, 8, {30}), text(2, 8, {40})}));
  EXPECT_THAT(last_tokens(choose(*queue, rows(10)).tickets), ElementsAre(10, 30));
}

TEST(BatchPolicy, WhoSharesLittleDoesNotOvertake) {
  const auto queue = busy_queue();
  std::vector<uint32_t> own(63);
  std::iota(own.begin(), own.end(), 100);
  // The third shares 8 of its 71 tokens with the first: less than an eighth.
  const auto request =
      admit(queue, submission_of({text(1, 8, {10}), {2, 3}, text(1, 8, own), text(1, 8, {40})}));
  EXPECT_THAT(last_tokens(choose(*queue, no_bounds()).tickets), ElementsAre(10, 40, 3, 162));
}

TEST(BatchPolicy, IdenticalTextsGoTogetherWhateverTheBudget) {
  const auto queue = queue_of();
  const auto a = admit(queue, submission_of({{1, 2, 3}}));
  const auto between = admit(queue, submission_of({{4, 5, 6}}));
  const auto b = admit(queue, submission_of({{1, 2, 3}, {1, 2}}));
  BatchRules rules = rows(3);
  rules.full_rows_max = 3;
  rules.sequences_max = 1;
  EXPECT_THAT(first_tokens(choose(*queue, rules).tickets), ElementsAre(1, 1));
}

TEST(BatchPolicy, TenantsShareNothing) {
  const auto queue = busy_queue();
  const auto a = admit(queue, submission_of({text(1, 8, {10})}, 1));
  const auto b = admit(queue, submission_of({text(1, 8, {20})}, 2));
  const auto c = admit(queue, submission_of({text(1, 8, {30})}, 1));
  EXPECT_THAT(last_tokens(choose(*queue, rows(10)).tickets), ElementsAre(10, 30));
}

TEST(BatchPolicy, NobodyIsOvertakenByMoreThanItMayBe) {
  const auto queue = queue_for_rows(10);
  const auto first = admit(queue, submission_of({text(1, 8, {0})}));
  const auto alone = admit(queue, submission_of({text(2, 8, {1})}));
  // One may be overtaken by 16 batches of 10 rows: 17 texts of 9 tokens, turns up to 18 + 160.
  std::vector<std::shared_ptr<RequestState>> more;
  for (uint32_t i = 0; i < 30; ++i) {
    more.push_back(admit(queue, submission_of({text(1, 8, {10 + i})})));
  }
  const std::vector<uint32_t> order = last_tokens(choose(*queue, no_bounds()).tickets);
  const auto at = std::find(order.begin(), order.end(), 1U);
  EXPECT_EQ(at - order.begin(), 1 + 17);
}

TEST(BatchPolicy, PredictedSecondsCloseABatch) {
  const auto queue = queue_of();
  const auto request = admit(queue, submission_of({{1, 2}, {3, 4}, {5, 6}, {7, 8}}));
  CostCoefficients coefficients;
  coefficients.fixed = 1;
  coefficients.row = 0.5;
  BatchRules rules = no_bounds();
  rules.seconds_max = 3;
  const Choice choice = choose(*queue, rules, DedupMode::kTrie, coefficients);
  EXPECT_EQ(choice.tickets.size(), 2U);
  EXPECT_EQ(choice.closed, BatchClosed::kSeconds);
}

TEST(BatchPolicy, AttentionAndWantedRowsCountInPredictedSeconds) {
  const auto queue = queue_of();
  const auto request = admit(queue, submission_of({{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}));
  BatchRules rules = no_bounds();
  rules.seconds_max = 12;
  CostCoefficients pairs;
  pairs.pair = 1;  // six each
  EXPECT_EQ(choose(*queue, rules, DedupMode::kTrie, pairs).tickets.size(), 2U);
  CostCoefficients wanted;
  wanted.wanted = 5;
  EXPECT_EQ(choose(*queue, rules, DedupMode::kTrie, wanted).tickets.size(), 2U);
  wanted.wanted = 2;
  EXPECT_EQ(choose(*queue, rules, DedupMode::kTrie, wanted).tickets.size(), 3U);
  Submission all = submission_of({{1, 2, 3}, {4, 5, 6}, {7, 8, 9}});
  for (Sequence& sequence : all.sequences) sequence.wanted = WantedRows::kAll;
  const auto of_all = queue_of();
  const auto second = admit(of_all, std::move(all));
  EXPECT_EQ(choose(*of_all, rules, DedupMode::kTrie, wanted).tickets.size(), 2U);
}

TEST(BatchPolicy, WhoSharesMostMayStretchTheTime) {
  const auto queue = queue_of();
  Submission submission;
  for (uint32_t i = 0; i < 100; ++i) {
    submission.sequences.push_back({text(1, 20, {i}), WantedRows::kLast});
  }
  const auto request = admit(queue, submission);
  CostCoefficients coefficients;
  coefficients.row = 1;
  BatchRules rules = no_bounds();
  rules.seconds_max = 15;
  EXPECT_EQ(choose(*queue, rules, DedupMode::kTrie, coefficients).tickets.size(), 40U);
}

TEST(BatchPolicy, SaysWhyABatchClosed) {
  const auto queue = queue_of();
  const auto request = admit(queue, submission_of({{1, 2}, {3, 4}}));
  EXPECT_EQ(choose(*queue, no_bounds()).closed, BatchClosed::kQueueEmpty);
  EXPECT_EQ(choose(*queue, rows(3)).closed, BatchClosed::kRows);
  BatchRules rules = no_bounds();
  rules.sequences_max = 1;
  EXPECT_EQ(choose(*queue, rules).closed, BatchClosed::kSequences);
}

TEST(BatchPolicy, ALightClientIsInTheNextBatchWhateverOthersHaveSent) {
  const auto queue = queue_for_rows(80);
  std::vector<std::shared_ptr<RequestState>> bulk;
  for (uint32_t i = 0; i < 200; ++i) {
    bulk.push_back(admit(queue, from_client(1, submission_of({text(1, 8, {i})}))));
  }
  const auto lone = admit(queue, from_client(2, submission_of({{7, 7, 7}})));
  const Choice choice = choose(*queue, rows(80));
  EXPECT_EQ(choice.tickets.front().request, lone);
  EXPECT_GT(choice.tickets.size(), 60U);
}

TEST(BatchPolicy, LightClientsTakeHalfOfABatchAtMost) {
  const auto queue = queue_for_rows(80);
  const auto bulk = admit(queue, from_client(0, submission_of({text(1, 40, {})}), 100));
  std::vector<std::shared_ptr<RequestState>> light;
  for (uint32_t i = 1; i <= 20; ++i) {
    light.push_back(admit(queue, from_client(i, submission_of({text(100 + i, 10, {})}))));
  }
  const Choice choice = choose(*queue, rows(80));
  EXPECT_EQ(choice.tickets.size(), 5U);
  EXPECT_EQ(choice.tickets.back().request, bulk);
}

TEST(BatchPolicy, TheTurnThatLightClientsCostIsOwedAndGiven) {
  const auto queue = queue_for_rows(80);
  const auto bulk = admit(queue, from_client(0, submission_of({text(1, 79, {})}), 100));
  const auto light = admit(queue, from_client(1, submission_of({text(2, 10, {})})));
  const Choice first = choose(*queue, rows(80));
  EXPECT_THAT(first_tokens(first.tickets), ElementsAre(2));
  EXPECT_TRUE(first.owes_turn);
  EXPECT_TRUE(queue->dispatch(first));
  const auto next = admit(queue, from_client(2, submission_of({text(3, 10, {})})));
  const Choice second = choose(*queue, rows(80));
  EXPECT_THAT(first_tokens(second.tickets), ElementsAre(1));
  EXPECT_FALSE(second.owes_turn);
}

TEST(BatchPolicy, TheTurnThatIsOwedIsTheModels) {
  SchedulerLimits limits;
  limits.batch_rows_max = 80;
  const auto queue = queue_of(2, testing::kNoLimit, limits);
  const auto bulk = admit(queue, from_client(0, submission_of({text(1, 79, {})}), 100));
  const auto light = admit(queue, from_client(1, submission_of({text(2, 10, {})})));
  const Choice first = choose(*queue, rows(80));
  ASSERT_TRUE(first.owes_turn);
  ASSERT_TRUE(queue->dispatch(first));
  // Batches of another model neither take it nor give it.
  const auto other = admit(queue, for_model(1, from_client(1, submission_of({text(9, 10, {})}))));
  const auto next = admit(queue, from_client(2, submission_of({text(3, 10, {})})));
  const Choice between = choose(*queue, rows(80));
  EXPECT_EQ(between.model, 1U);
  EXPECT_TRUE(queue->dispatch(between));
  EXPECT_THAT(first_tokens(choose(*queue, rows(80)).tickets), ElementsAre(1));
}

TEST(BatchPolicy, ModelsGoRoundHoweverManyClientsTheyHave) {
  const auto queue = queue_of(3);
  std::vector<std::shared_ptr<RequestState>> requests;
  for (uint32_t i = 0; i < 20; ++i)
    requests.push_back(admit(queue, for_model(0, from_client(i, submission_of({{i}})))));
  for (uint32_t i = 0; i < 3; ++i) {
    for (size_t model : {2, 1})
      requests.push_back(admit(queue, for_model(model, from_client(0, submission_of({{i}})))));
  }
  BatchRules one = no_bounds();
  one.sequences_max = 1;
  std::vector<size_t> models;
  for (size_t i = 0; i < 11; ++i) {
    const Choice choice = choose(*queue, one);
    ASSERT_TRUE(queue->dispatch(choice));
    models.push_back(choice.model);
  }
  EXPECT_THAT(models, ElementsAre(0, 2, 1, 0, 2, 1, 0, 2, 1, 0, 0));
}

TEST(BatchPolicy, InterludesOfAModelAreNotHeldAgainstItsBatches) {
  const auto queue = queue_of(2);
  std::vector<std::shared_ptr<RequestState>> requests;
  for (size_t model : {0, 1}) {
    requests.push_back(admit(queue, for_model(model, submission_of({text(1, 50, {})}))));
    requests.push_back(admit(queue, for_model(model, submission_of({text(2, 60, {})}))));
  }
  BatchRules one = no_bounds();
  one.sequences_max = 1;
  ASSERT_TRUE(queue->dispatch(choose(*queue, one)));  // the first model's
  requests.push_back(admit(queue, for_model(1, submission_of({{3}}))));
  BatchRules interlude = one;
  interlude.interlude = true;
  interlude.ticket_tokens_max = 5;
  const Choice within = choose(*queue, interlude);
  ASSERT_EQ(within.model, 1U);
  ASSERT_TRUE(queue->dispatch(within));
  EXPECT_EQ(choose(*queue, one).model, 1U);
}

TEST(BatchPolicy, LightClientsTakeHalfOfTheSequencesAndOfTheFullRowsToo) {
  const auto queue = queue_of();
  std::vector<std::vector<uint32_t>> texts;
  for (uint32_t i = 0; i < 100; ++i) texts.push_back(text(i, 40, {}));
  const auto bulk = admit(queue, from_client(0, submission_of(texts), 1000));
  std::vector<std::shared_ptr<RequestState>> light;
  for (uint32_t i = 1; i <= 100; ++i) {
    light.push_back(admit(queue, from_client(i, submission_of({text(100 + i, 40, {})}))));
  }
  const auto of_bulk = [&](const BatchRules& rules) {
    const std::vector<Ticket> tickets = choose(*queue, rules).tickets;
    return std::count_if(tickets.begin(), tickets.end(),
                         [&](const Ticket& ticket) { return ticket.request == bulk; });
  };
  BatchRules sequences = no_bounds();
  sequences.sequences_max = 8;
  BatchRules full_rows = no_bounds();
  full_rows.full_rows_max = 320;
  EXPECT_EQ(of_bulk(sequences), 4);
  EXPECT_EQ(of_bulk(full_rows), 4);
}

TEST(BatchPolicy, LightClientsThatGoFirstDoNotMoveTheTurnBeyondWhatWaits) {
  const auto queue = queue_for_rows(80);
  const auto bulk = admit(queue, from_client(0,
                                             submission_of({text(1, 79, {}), text(2, 79, {}),
                                                            text(3, 79, {}), text(4, 79, {})}),
                                             100));
  // Its turn is far ahead; it goes first because it is light, and the bulk does not fit.
  const auto light = admit(queue, from_client(1, submission_of({text(5, 10, {})})));
  const Choice first = choose(*queue, rows(80));
  EXPECT_THAT(first_tokens(first.tickets), ElementsAre(5));
  EXPECT_TRUE(queue->dispatch(first));
  // Not light. It comes while the first of the bulk is in turn, so only that one is before it.
  const auto late = admit(queue, from_client(2, submission_of({text(6, 40, {})}), 100));
  const Choice second = choose(*queue, rows(80));
  EXPECT_THAT(first_tokens(second.tickets), ElementsAre(1));
  EXPECT_TRUE(queue->dispatch(second));
  EXPECT_THAT(first_tokens(choose(*queue, rows(80)).tickets), ElementsAre(6));
}

TEST(BatchPolicy, LightClientsTakeHalfOfABatchesTimeAtMost) {
  const auto queue = queue_for_rows(80);
  const auto bulk = admit(queue, from_client(0, submission_of({text(1, 30, {})}), 100));
  std::vector<std::shared_ptr<RequestState>> light;
  for (uint32_t i = 1; i <= 60; ++i) {
    light.push_back(admit(queue, from_client(i, submission_of({text(2, 9, {i})}))));
  }
  CostCoefficients coefficients;
  coefficients.row = 1;
  BatchRules rules = no_bounds();
  rules.seconds_max = 60;
  // Nine rows that they share and 21 of their own; sharing stretches nothing before the turn.
  const Choice choice = choose(*queue, rules, DedupMode::kTrie, coefficients);
  ASSERT_GT(choice.tickets.size(), 21U);
  EXPECT_EQ(choice.tickets[21].request, bulk);
  EXPECT_FALSE(choice.owes_turn);
}

TEST(BatchPolicy, AnInterludeLeavesTheTurnThatIsOwed) {
  const auto queue = queue_for_rows(80);
  const auto bulk = admit(queue, from_client(0, submission_of({text(1, 79, {})}), 100));
  const auto light = admit(queue, from_client(1, submission_of({text(2, 10, {})})));
  const Choice first = choose(*queue, rows(80));
  ASSERT_TRUE(first.owes_turn);
  ASSERT_TRUE(queue->dispatch(first));
  const auto tiny = admit(queue, from_client(2, submission_of({{3}})));
  BatchRules interlude = rows(80);
  interlude.interlude = true;
  interlude.ticket_tokens_max = 5;
  const Choice between = choose(*queue, interlude);
  EXPECT_THAT(first_tokens(between.tickets), ElementsAre(3));
  ASSERT_TRUE(queue->dispatch(between));
  const auto next = admit(queue, from_client(3, submission_of({text(4, 10, {})})));
  EXPECT_THAT(first_tokens(choose(*queue, rows(80)).tickets), ElementsAre(1));
}

TEST(BatchPolicy, TheSameQueueLimitsAndClockGiveTheSameChoice) {
  std::mt19937 random(1);
  const auto queue = queue_of();
  std::vector<std::shared_ptr<RequestState>> requests;
  for (int i = 0; i < 300; ++i) {
    std::vector<uint32_t> ids(1 + random() % 30, static_cast<uint32_t>(random() % 5));
    ids.push_back(static_cast<uint32_t>(random() % 100));
    requests.push_back(admit(queue, from_client(random() % 7, submission_of({ids}))));
  }
  const Clock::time_point now = Clock::now();
  const auto once = [&] {
    std::vector<std::pair<const RequestState*, size_t>> order;
    for (const Ticket& ticket : choose(*queue, rows(200), DedupMode::kTrie, {}, now).tickets) {
      order.emplace_back(ticket.request.get(), ticket.index);
    }
    return order;
  };
  const auto first = once();
  EXPECT_GT(first.size(), 10U);
  EXPECT_EQ(once(), first);
}

}  // namespace
}  // namespace espalier::scheduler
