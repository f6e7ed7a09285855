// The forward pass on tiny random models: the three dedup modes against each other and against each
// text alone. What is computed, rather than that it agrees, is tests/numpy_reference's matter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "models/model.h"
#include "models/workspace.h"
#include "tests/reference/naive_plan.h"
#include "tests/unit/models/tiny_model.h"

namespace espalier::models {
namespace {

using engine::BatchPlan;
using engine::ConstMatView;
using engine::DedupMode;
using reference::NaivePlanner;
using reference::TokenIds;
using reference::Wanted;
using test::TemporaryFolder;
using test::TinyModel;
using test::TinyShape;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr DedupMode kModes[] = {DedupMode::kTrie, DedupMode::kRadixMlp, DedupMode::kOff};
constexpr float kTolerance = 1e-5F;  // of components, whose RMS after the final norm is about one

Model load_tiny(const TinyShape& shape = {}, uint32_t seed = 1) {
  const TemporaryFolder folder;
  TinyModel(shape, seed).write(folder);
  return test::load(folder.path());
}

std::vector<float> row_of(ConstMatView view, size_t row) {
  return {view.row(row).begin(), view.row(row).end()};
}

/// The final hidden state of every token of every sequence, from one batch.
std::vector<std::vector<std::vector<float>>> all_states(Model& model,
                                                        const std::vector<TokenIds>& sequences,
                                                        DedupMode dedup) {
  NaivePlanner planner(sequences, dedup);
  const BatchPlan plan = planner.plan(Wanted::kAllRows);
  const ConstMatView states = model.forward_pass().run(plan, {});
  std::vector<std::vector<std::vector<float>>> result(sequences.size());
  for (size_t s = 0; s < sequences.size(); ++s) {
    for (size_t i = 0; i < sequences[s].size(); ++i) {
      result[s].push_back(row_of(states, planner.row_of(s, i)));
    }
  }
  return result;
}

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  float largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(a[i] - b[i]));
  return largest;
}

TokenIds random_tokens(std::mt19937& random, size_t count, uint32_t vocabulary) {
  TokenIds ids(count);
  for (uint32_t& id : ids) id = static_cast<uint32_t>(random() % vocabulary);
  return ids;
}

/// Sequences that start with prefixes of each other, among them repeats and whole prefixes.
std::vector<TokenIds> branching_batch(std::mt19937& random, size_t count, uint32_t vocabulary) {
  std::vector<TokenIds> sequences = {random_tokens(random, 20, vocabulary)};
  while (sequences.size() < count) {
    const TokenIds& other = sequences[random() % sequences.size()];
    TokenIds ids(other.begin(), other.begin() + static_cast<long>(random() % (other.size() + 1)));
    const TokenIds tail = random_tokens(random, random() % 15, vocabulary);
    ids.insert(ids.end(), tail.begin(), tail.end());
    if (!ids.empty()) sequences.push_back(ids);
  }
  return sequences;
}

/// Every token's state in every mode, in one batch, against its sequence alone.
void expect_modes_agree(Model& model, const std::vector<TokenIds>& sequences) {
  for (const DedupMode dedup : kModes) {
    const auto together = all_states(model, sequences, dedup);
    for (size_t s = 0; s < sequences.size(); ++s) {
      const auto alone = all_states(model, {sequences[s]}, DedupMode::kOff)[0];
      for (size_t i = 0; i < alone.size(); ++i) {
        ASSERT_LE(largest_difference(together[s][i], alone[i]), kTolerance)
            << "mode " << static_cast<int>(dedup) << ", sequence " << s << ", token " << i;
      }
    }
  }
}

TEST(CausalDecoder, EveryTokenOfABatchEqualsItsSequenceAloneInAllModes) {
  std::mt19937 random(7);
  for (const TinyShape& shape :
       {TinyShape{}, TinyShape{.layers = 3, .query_heads = 3, .kv_heads = 1, .head_dim = 16},
        TinyShape{.layers = 1, .query_heads = 2, .kv_heads = 2, .head_dim = 4}}) {
    Model model = load_tiny(shape);
    for (int batch = 0; batch < 3; ++batch) {
      expect_modes_agree(model, branching_batch(random, 8, 6));
    }
  }
}

TEST(CausalDecoder, ModesAgreeForEveryFamily) {
  std::mt19937 random(13);
  for (const char* family : {"llama", "mistral", "qwen2", "qwen3"}) {
    const TemporaryFolder folder;
    TinyModel tiny;
    tiny.set_family(family);
    if (family == std::string("llama")) {
      for (const char* product :
           {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"}) {
        tiny.add_biases(product);
      }
      tiny.config["attention_bias"] = "true";
    }
    tiny.write(folder);
    Model model = test::load(folder.path());
    expect_modes_agree(model, branching_batch(random, 8, 6));
  }
}

TEST(CausalDecoder, PositionsEndWhereASlidingWindowDoes) {
  const TemporaryFolder folder;
  TinyModel tiny;
  tiny.set_family("mistral");
  tiny.config["sliding_window"] = "16";
  tiny.write(folder);
  Model model = test::load(folder.path());
  const auto run = [&](size_t tokens) {
    const std::vector<TokenIds> sequence = {TokenIds(tokens, 3)};
    model.forward_pass().run(reference::naive_plan(sequence, DedupMode::kTrie), {});
  };
  EXPECT_NO_THROW(run(16));
  EXPECT_THROW(run(17), std::out_of_range);
}

TEST(CausalDecoder, BatchesOfSeveralRowBlocksAgreeToo) {
  std::mt19937 random(8);
  Model model = load_tiny();
  static_assert(kRowBlock == 1024);
  TokenIds prefix = random_tokens(random, 1000, 40);
  std::vector<TokenIds> sequences = {prefix, prefix, random_tokens(random, 290, 40)};
  prefix.resize(970);
  sequences.push_back(prefix);
  sequences[1].push_back(3);
  expect_modes_agree(model, sequences);
}

TEST(CausalDecoder, WantedRowsAreThoseOfTheWholePass) {
  std::mt19937 random(9);
  Model model = load_tiny();
  const std::vector<TokenIds> sequences = branching_batch(random, 10, 5);
  for (const DedupMode dedup : kModes) {
    BatchPlan plan = reference::naive_plan(sequences, dedup, Wanted::kAllRows);
    const ConstMatView all = model.forward_pass().run(plan, {});
    std::vector<std::vector<float>> expected;
    for (size_t row = 0; row < all.rows; ++row) expected.push_back(row_of(all, row));

    std::erase_if(plan.wanted_rows, [](uint32_t row) { return row % 3 != 1; });
    const ConstMatView some = model.forward_pass().run(plan, {});
    ASSERT_EQ(some.rows, plan.wanted_rows.size());
    for (size_t k = 0; k < some.rows; ++k) {
      EXPECT_LE(largest_difference(row_of(some, k), expected[plan.wanted_rows[k]]), kTolerance);
    }
  }
}

TEST(CausalDecoder, LaterTokensDoNotReachEarlierOnes) {
  Model model = load_tiny();
  const auto one = all_states(model, {{1, 2, 3, 4}}, DedupMode::kTrie)[0];
  const auto other = all_states(model, {{1, 2, 3, 9}}, DedupMode::kTrie)[0];
  for (size_t i = 0; i < 3; ++i) EXPECT_LE(largest_difference(one[i], other[i]), kTolerance);
  EXPECT_GT(largest_difference(one[3], other[3]), 0.01F);
}

TEST(CausalDecoder, TheOrderOfTokensMatters) {
  Model model = load_tiny();
  const auto one = all_states(model, {{1, 2, 3}}, DedupMode::kTrie)[0];
  const auto other = all_states(model, {{2, 1, 3}}, DedupMode::kTrie)[0];
  EXPECT_GT(largest_difference(one[2], other[2]), 0.01F);
}

TEST(CausalDecoder, ASmallBatchAfterALargeOneGivesTheSameBits) {
  std::mt19937 random(10);
  Model model = load_tiny();
  const std::vector<TokenIds> small = {{5, 6, 7}, {5, 6}};
  const auto before = all_states(model, small, DedupMode::kRadixMlp);
  all_states(model, branching_batch(random, 30, 8), DedupMode::kTrie);
  EXPECT_EQ(all_states(model, small, DedupMode::kRadixMlp), before);
}

TEST(CausalDecoder, ProgressIsReportedAfterEachBlockOfRowsOfEachLayer) {
  Model model = load_tiny({.layers = 3, .positions = 1500});
  std::vector<std::pair<size_t, size_t>> reports;
  const auto record = [&](size_t done, size_t steps) {
    reports.emplace_back(done, steps);
    return true;
  };
  const auto run = [&](size_t tokens) {
    reports.clear();
    const std::vector<TokenIds> sequence = {TokenIds(tokens, 3)};
    model.forward_pass().run(reference::naive_plan(sequence, DedupMode::kTrie), record);
  };
  // The last layer has one more: keys and values for all rows, then what is wanted.
  run(2);
  EXPECT_THAT(reports, ElementsAre(Pair(1, 4), Pair(2, 4), Pair(3, 4), Pair(4, 4)));
  run(kRowBlock + 1);
  EXPECT_EQ(reports.size(), 7U);
  EXPECT_EQ(reports.back(), std::pair(size_t{7}, size_t{7}));
}

TEST(CausalDecoder, AnAbandonedPassReturnsNoRowsAndTheNextOneWorks) {
  Model model = load_tiny({.layers = 3});
  const std::vector<TokenIds> sequences = {{1, 2, 3}, {1, 5}};
  const auto expected = all_states(model, sequences, DedupMode::kTrie);
  for (size_t last = 1; last <= 4; ++last) {
    size_t calls = 0;
    const ConstMatView nothing =
        model.forward_pass().run(reference::naive_plan(sequences, DedupMode::kTrie),
                                 [&](size_t, size_t) { return ++calls < last; });
    EXPECT_EQ(nothing.rows, 0U);
    EXPECT_EQ(calls, last);
    EXPECT_EQ(all_states(model, sequences, DedupMode::kTrie), expected);
  }
}

TEST(CausalDecoder, AnInterludeRunsInsideAPassAndLeavesItAlone) {
  std::mt19937 random(12);
  Model model = load_tiny({.layers = 3, .positions = 1500});
  const std::vector<TokenIds> long_batch = {random_tokens(random, 1300, 40)};
  const std::vector<TokenIds> short_batch = {{1, 2, 3}, {1, 5}};
  const BatchPlan long_plan = reference::naive_plan(long_batch, DedupMode::kTrie);
  const BatchPlan short_plan = reference::naive_plan(short_batch, DedupMode::kTrie);
  const auto copy = [](ConstMatView view) {
    return std::vector<float>(view.data, view.data + view.rows * view.cols);
  };
  const std::vector<float> long_states = copy(model.forward_pass().run(long_plan, {}));
  const std::vector<float> short_states = copy(model.forward_pass().run(short_plan, {}));
  size_t interludes = 0;
  const ConstMatView states = model.forward_pass().run(long_plan, [&](size_t, size_t) {
    EXPECT_EQ(copy(model.interlude_pass().run(short_plan, {})), short_states);
    ++interludes;
    return true;
  });
  EXPECT_EQ(copy(states), long_states);
  EXPECT_EQ(interludes, 7U);
}

TEST(CausalDecoder, NothingWantedIsNothingReturned) {
  Model model = load_tiny();
  BatchPlan plan = reference::naive_plan(std::vector<TokenIds>{{1, 2}}, DedupMode::kTrie);
  plan.wanted_rows.clear();
  EXPECT_EQ(model.forward_pass().run(plan, {}).rows, 0U);
  EXPECT_EQ(model.forward_pass().run({}, {}).rows, 0U);
}

TEST(CausalDecoder, IdsAndPositionsThatTheModelLacksThrowWithTheirValues) {
  Model model = load_tiny();
  BatchPlan plan = reference::naive_plan(std::vector<TokenIds>{{1, 40}}, DedupMode::kTrie);
  EXPECT_THROW(model.forward_pass().run(plan, {}), std::out_of_range);
  plan.token_ids[1] = 39;
  EXPECT_NO_THROW(model.forward_pass().run(plan, {}));
  plan.positions[1] = 1024;
  EXPECT_THROW(model.forward_pass().run(plan, {}), std::out_of_range);
}

TEST(CausalDecoder, TheLastPositionOfTheModelWorksWhateverCameBefore) {
  std::mt19937 random(11);
  const TinyShape shape{.layers = 2, .positions = 1500};  // beyond the first table of angles
  const TokenIds longest = random_tokens(random, 1500, 40);
  const TokenIds start(longest.begin(), longest.begin() + 10);
  Model fresh = load_tiny(shape);
  const auto expected = all_states(fresh, {longest}, DedupMode::kTrie)[0];
  Model used = load_tiny(shape);
  const auto short_states = all_states(used, {start}, DedupMode::kTrie)[0];
  EXPECT_EQ(all_states(used, {longest}, DedupMode::kTrie)[0], expected);
  EXPECT_TRUE(std::isfinite(expected.back()[0]));
  EXPECT_LE(largest_difference(expected[9], short_states[9]), kTolerance);
}

TEST(CausalDecoder, AResultThatIsNotFiniteThrowsAndTheNextRunWorks) {
  const TemporaryFolder folder;
  TinyModel tiny;
  for (const float poison :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    tiny.tensors["model.embed_tokens.weight"].values[7 * 32 + 5] = poison;  // token 7's row
    tiny.write(folder);
    Model model = test::load(folder.path());
    for (const DedupMode dedup : kModes) {
      const auto run = [&](uint32_t id) {
        model.forward_pass().run(reference::naive_plan(std::vector<TokenIds>{{1, id}, {1}}, dedup),
                                 {});
      };
      EXPECT_THAT(test::error_of([&] { run(7); }), HasSubstr("not finite"));
      EXPECT_EQ(test::error_of([&] { run(8); }), "no error");
    }
  }
}

}  // namespace
}  // namespace espalier::models
