// The same text gives the same bits: alone, in any batch, in every dedup mode, with any number of
// threads. Promised by our own kernels in every number format (docs/NUMERICS.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "models/model.h"
#include "tests/reference/gemm_backends.h"
#include "tests/reference/naive_plan.h"

namespace espalier::models {
namespace {

using engine::DedupMode;
using reference::TokenIds;

constexpr DedupMode kModes[] = {DedupMode::kTrie, DedupMode::kRadixMlp, DedupMode::kOff};
constexpr size_t kTexts = 24;

std::vector<reference::NamedBackend> backends_with_fixed_bits() {
  std::vector<reference::NamedBackend> backends = reference::offered_backends();
  std::erase_if(backends, [](const auto& backend) { return !backend.fixed_bits; });
  return backends;
}

TokenIds random_tokens(std::mt19937& random, size_t count) {
  TokenIds ids(count);
  for (uint32_t& id : ids) id = static_cast<uint32_t>(random() % 8192);
  return ids;
}

/// Texts of 1 to 300 tokens, two thirds of which begin like another one.
std::vector<TokenIds> make_texts(std::mt19937& random) {
  std::vector<TokenIds> texts;
  while (texts.size() < kTexts) {
    TokenIds ids;
    if (!texts.empty() && random() % 3 != 0) {
      const TokenIds& other = texts[random() % texts.size()];
      ids.assign(other.begin(), other.begin() + static_cast<long>(random() % (other.size() + 1)));
    }
    const TokenIds tail = random_tokens(random, 1 + random() % (random() % 2 == 0 ? 12 : 180));
    ids.insert(ids.end(), tail.begin(), tail.end());
    if (ids.size() <= 300) texts.push_back(ids);
  }
  return texts;
}

class BitEquality : public ::testing::TestWithParam<reference::NamedBackend> {
 protected:
  Model load(size_t threads) const {
    return Model::load(ESPALIER_MINI_MODEL, GetParam().gemm,
                       std::make_shared<engine::ThreadPool>(threads), {});
  }

  /// The final state of each sequence's last token.
  static std::vector<std::vector<float>> run(Model& model, const std::vector<TokenIds>& sequences,
                                             DedupMode dedup) {
    const engine::BatchPlan plan = reference::naive_plan(sequences, dedup);
    const engine::ConstMatView states = model.forward_pass().run(plan, {});
    std::vector<std::vector<float>> result;
    for (const engine::SequenceEnd& end : plan.ends) {
      const auto at = std::ranges::lower_bound(plan.wanted_rows, end.row);
      const auto row = states.row(static_cast<size_t>(at - plan.wanted_rows.begin()));
      result.emplace_back(row.begin(), row.end());
    }
    return result;
  }

  static bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  }
};

INSTANTIATE_TEST_SUITE_P(NativeKernels, BitEquality,
                         ::testing::ValuesIn(backends_with_fixed_bits()),
                         [](const auto& test) { return test.param.name; });

TEST_P(BitEquality, ATextGivesTheSameBitsInAnyBatchModeAndNumberOfThreads) {
  std::mt19937 random(20);
  const std::vector<TokenIds> texts = make_texts(random);
  Model models[] = {load(1), load(2), load(3)};
  std::vector<std::vector<float>> alone;
  for (const TokenIds& text : texts) alone.push_back(run(models[0], {text}, DedupMode::kOff)[0]);

  for (size_t batch = 0; batch < 24; ++batch) {
    // 1 to 64 texts, known ones and strangers, in any order.
    const size_t size = batch == 0 ? 1 : batch == 1 ? 64 : 2 + random() % 63;
    std::vector<TokenIds> sequences;
    std::vector<std::optional<size_t>> known;
    for (size_t i = 0; i < size; ++i) {
      if (random() % 4 != 0) {
        known.emplace_back(random() % kTexts);
        sequences.push_back(texts[*known.back()]);
      } else {
        known.emplace_back();
        sequences.push_back(random_tokens(random, 1 + random() % 90));
      }
    }
    for (const DedupMode dedup : kModes) {
      Model& model = models[random() % std::size(models)];
      const std::vector<std::vector<float>> states = run(model, sequences, dedup);
      for (size_t i = 0; i < size; ++i) {
        if (!known[i]) continue;
        ASSERT_TRUE(same_bits(states[i], alone[*known[i]]))
            << "batch " << batch << " of " << size << ", mode " << static_cast<int>(dedup)
            << ", text " << *known[i] << " of " << sequences[i].size() << " tokens";
      }
    }
  }
}

}  // namespace
}  // namespace espalier::models
