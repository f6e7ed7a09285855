// Sequences that want the hidden states of all their tokens, their mean, the first or the last,
// through the scheduler and the bundled model: row i is, bit for bit, the last row of the first
// i + 1 tokens computed alone, and the mean is that of these rows. Whatever shares the batch: texts
// that begin alike of which other rows are wanted, twins, other tenants; in every dedup mode.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "models/model.h"
#include "scheduler/scheduler.h"
#include "tests/reference/gemm_backends.h"
#include "tests/reference/naive_plan.h"

namespace espalier {
namespace {

using engine::DedupMode;
using reference::TokenIds;
using scheduler::Sequence;
using scheduler::Submission;
using scheduler::WantedRows;
using namespace std::chrono_literals;

constexpr DedupMode kModes[] = {DedupMode::kTrie, DedupMode::kRadixMlp, DedupMode::kOff};
constexpr size_t kRounds = 4;  // batches a mode

std::vector<reference::NamedBackend> backends_with_fixed_bits() {
  std::vector<reference::NamedBackend> backends = reference::offered_backends();
  std::erase_if(backends, [](const auto& backend) { return !backend.fixed_bits; });
  return backends;
}

models::Model load(const reference::NamedBackend& backend, size_t threads) {
  return models::Model::load(ESPALIER_MINI_MODEL, backend.gemm,
                             std::make_shared<engine::ThreadPool>(threads), {});
}

TokenIds random_tokens(std::mt19937& random, size_t count) {
  TokenIds ids(count);
  for (uint32_t& id : ids) id = static_cast<uint32_t>(random() % 8192);
  return ids;
}

/// Texts that leave one another at the borders of what attention works through at a time (64) and
/// elsewhere, one within another, and strangers.
std::vector<TokenIds> make_texts(std::mt19937& random) {
  const TokenIds longest = random_tokens(random, 150);
  std::vector<TokenIds> texts = {longest, random_tokens(random, 1), random_tokens(random, 40)};
  for (const long shared : {1, 63, 64, 65, 100}) {
    texts.emplace_back(longest.begin(), longest.begin() + shared);
    texts.push_back(texts.back());
    const TokenIds own = random_tokens(random, 1 + random() % 20);
    texts.back().insert(texts.back().end(), own.begin(), own.end());
  }
  return texts;
}

/// The last row of every beginning of the texts asked for, computed alone.
class LastRowsAlone {
 public:
  explicit LastRowsAlone(models::Model model) : model_(std::move(model)) {}

  const std::vector<float>& of(const TokenIds& ids, size_t length) {
    const TokenIds beginning(ids.begin(), ids.begin() + static_cast<long>(length));
    std::vector<float>& row = rows_[beginning];
    if (row.empty()) {
      const engine::BatchPlan plan = reference::naive_plan({{beginning}}, DedupMode::kOff);
      const std::span<const float> state = model_.forward_pass().run(plan, {}).row(0);
      row.assign(state.begin(), state.end());
    }
    return row;
  }

 private:
  models::Model model_;
  std::map<TokenIds, std::vector<float>> rows_;
};

struct Reports final : scheduler::SchedulerObserver {
  size_t full_rows = 0;
  size_t compact_rows = 0;
  void on_batch(const scheduler::BatchReport& report) override {
    full_rows += report.full_rows;
    compact_rows += report.compact_rows;
  }
};

WantedRows random_wanted(std::mt19937& random) {
  constexpr WantedRows kKinds[] = {WantedRows::kLast, WantedRows::kFirst, WantedRows::kMean,
                                   WantedRows::kAll};
  return kKinds[random() % std::size(kKinds)];
}

/// All texts in any order, some of them twice, each wanting any rows.
Submission random_submission(std::mt19937& random, const std::vector<TokenIds>& texts) {
  Submission submission;
  for (const TokenIds& text : texts) {
    submission.sequences.push_back({text, random_wanted(random)});
    if (random() % 3 == 0) {  // a twin that may want other rows
      submission.sequences.push_back({text, random_wanted(random)});
    }
  }
  std::shuffle(submission.sequences.begin(), submission.sequences.end(), random);
  return submission;
}

/// What `sequence` is to get, from rows that were computed alone.
std::vector<float> expected_states(const Sequence& sequence, LastRowsAlone& alone) {
  const size_t tokens = sequence.token_ids.size();
  if (sequence.wanted == WantedRows::kLast) return alone.of(sequence.token_ids, tokens);
  if (sequence.wanted == WantedRows::kFirst) return alone.of(sequence.token_ids, 1);
  std::vector<float> states;
  for (size_t i = 1; i <= tokens; ++i) {
    const std::vector<float>& row = alone.of(sequence.token_ids, i);
    states.insert(states.end(), row.begin(), row.end());
  }
  if (sequence.wanted == WantedRows::kAll) return states;
  std::vector<float> mean(states.size() / tokens);
  for (size_t column = 0; column < mean.size(); ++column) {
    double sum = 0;
    for (size_t i = tokens; i-- > 0;) sum += states[i * mean.size() + column];
    mean[column] = static_cast<float>(sum / static_cast<double>(tokens));
  }
  return mean;
}

class AllRows : public ::testing::TestWithParam<reference::NamedBackend> {};

INSTANTIATE_TEST_SUITE_P(NativeKernels, AllRows, ::testing::ValuesIn(backends_with_fixed_bits()),
                         [](const auto& test) { return test.param.name; });

TEST_P(AllRows, AndTheirMeansAreThoseOfTheBeginningsAlone) {
  std::mt19937 random(21);
  const std::vector<TokenIds> texts = make_texts(random);
  LastRowsAlone alone(load(GetParam(), 1));
  models::Model model = load(GetParam(), 2);

  for (const DedupMode dedup : kModes) {
    Reports reports;
    size_t new_rows = 0;
    {
      scheduler::SchedulerLimits limits;
      limits.dedup = dedup;
      limits.batch_window = 50ms;  // for both tenants to come
      scheduler::Scheduler scheduler({&model.forward_pass()}, limits, &reports);
      for (size_t round = 0; round < kRounds; ++round) {
        Submission submissions[] = {random_submission(random, texts),
                                    random_submission(random, texts)};
        std::vector<std::shared_ptr<scheduler::PendingRequest>> requests;
        for (size_t tenant = 0; tenant < std::size(submissions); ++tenant) {
          submissions[tenant].tenant = tenant;
          auto admitted = scheduler.submit(submissions[tenant]);
          ASSERT_TRUE(admitted.has_value());
          requests.push_back(std::move(*admitted));
        }
        for (size_t tenant = 0; tenant < std::size(submissions); ++tenant) {
          ASSERT_TRUE(requests[tenant]->wait_for(60s));
          const auto result = requests[tenant]->take();
          ASSERT_TRUE(result.has_value()) << result.error().message;
          new_rows += result->stats.new_rows;
          for (size_t s = 0; s < result->sequences.size(); ++s) {
            const Sequence& sequence = submissions[tenant].sequences[s];
            const std::vector<float> expected = expected_states(sequence, alone);
            const std::vector<float>& states = result->sequences[s];
            ASSERT_EQ(states.size(), expected.size());
            ASSERT_EQ(std::memcmp(states.data(), expected.data(), states.size() * sizeof(float)), 0)
                << "mode " << static_cast<int>(dedup) << ", round " << round << ", "
                << sequence.token_ids.size() << " tokens, wanted "
                << static_cast<int>(sequence.wanted);
          }
        }
      }
    }
    EXPECT_EQ(new_rows, reports.compact_rows);
    if (dedup == DedupMode::kOff) {
      EXPECT_EQ(reports.compact_rows, reports.full_rows);
    } else {
      EXPECT_LT(2 * reports.compact_rows, reports.full_rows);
    }
  }
}

}  // namespace
}  // namespace espalier
