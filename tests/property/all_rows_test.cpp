// Sequences that want the hidden states of all their tokens, through the scheduler and the bundled
// model: row i is, bit for bit, the last row of the first i + 1 tokens computed alone. Whatever
// shares the batch: texts that begin alike of which only the last row is wanted, twins that want
// other rows, other tenants; in every dedup mode.
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

/// All texts in any order, some of them twice; each wants all rows or the last.
Submission random_submission(std::mt19937& random, const std::vector<TokenIds>& texts) {
  Submission submission;
  for (const TokenIds& text : texts) {
    const bool all = random() % 2 == 0;
    submission.sequences.push_back({text, all ? WantedRows::kAll : WantedRows::kLast});
    if (random() % 3 == 0) {  // a twin that wants other rows
      submission.sequences.push_back({text, all ? WantedRows::kLast : WantedRows::kAll});
    }
  }
  std::shuffle(submission.sequences.begin(), submission.sequences.end(), random);
  return submission;
}

class AllRows : public ::testing::TestWithParam<reference::NamedBackend> {};

INSTANTIATE_TEST_SUITE_P(NativeKernels, AllRows, ::testing::ValuesIn(backends_with_fixed_bits()),
                         [](const auto& test) { return test.param.name; });

TEST_P(AllRows, AreTheLastRowsOfTheBeginningsInTheirOrder) {
  std::mt19937 random(21);
  const std::vector<TokenIds> texts = make_texts(random);
  LastRowsAlone alone(load(GetParam(), 1));
  models::Model model = load(GetParam(), 2);
  const size_t width = model.forward_pass().hidden_size();

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
            const size_t tokens = sequence.token_ids.size();
            const size_t first = sequence.wanted == WantedRows::kAll ? 0 : tokens - 1;
            const std::vector<float>& states = result->sequences[s];
            ASSERT_EQ(states.size(), (tokens - first) * width);
            for (size_t i = first; i < tokens; ++i) {
              const std::vector<float>& expected = alone.of(sequence.token_ids, i + 1);
              ASSERT_EQ(std::memcmp(states.data() + (i - first) * width, expected.data(),
                                    width * sizeof(float)),
                        0)
                  << "mode " << static_cast<int>(dedup) << ", round " << round << ", row " << i
                  << " of " << tokens;
            }
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
