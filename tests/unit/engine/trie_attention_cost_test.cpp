// No shape of a trie is a cliff. attention_tile_test.cpp counts the work; this measures it.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "tests/reference/attention.h"
#include "tests/unit/engine/attention_inputs.h"

namespace espalier::engine {
namespace {

class TrieAttentionCost : public testing::TestWithParam<NumberFormat> {
 protected:
  // Each of these takes well under a second of linear work even with sanitizers; anything that is
  // quadratic in the number of nodes takes minutes.
  static constexpr double kNoCliffSeconds = 20.0;

  /// Runs attention over all rows once and returns the seconds it took.
  double seconds_for(const ExampleTrie& trie) const {
    const AttentionInputs inputs({.query_heads = 2, .kv_heads = 1, .head_dim = 16}, GetParam(),
                                 trie.rows(), 13);
    const auto start = std::chrono::steady_clock::now();
    const Matrix out = attend(detected_isa(), trie, inputs, all_rows(trie), 2);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    for (size_t row = 0; row < trie.rows(); ++row) {
      for (size_t i = 0; i < inputs.width(); ++i) {
        EXPECT_TRUE(std::isfinite(reference::element(GetParam(), out.view().row(row), i)));
      }
    }
    return elapsed.count();
  }
};

TEST_P(TrieAttentionCost, OneTokenTextsAreNoCliff) {
  EXPECT_LT(seconds_for(forest(16384, 1)), kNoCliffSeconds);
}

TEST_P(TrieAttentionCost, ManyTextsOfOneMoreTokenAreNoCliff) {
  EXPECT_LT(seconds_for(star(64, 16384, 1)), kNoCliffSeconds);
}

TEST_P(TrieAttentionCost, BinaryBranchingIsNoCliff) {
  EXPECT_LT(seconds_for(binary_tree(14, 1)), kNoCliffSeconds);
}

TEST_P(TrieAttentionCost, AShortTextAfterADeepOneDoesNotPayForIt) {
  // Tiles that begin deep in a long text and go on with one-token texts.
  ExampleTrie trie;
  for (int i = 0; i < 4; ++i) {
    trie.add(kNoParent, 2000);
    for (int k = 0; k < 1000; ++k) trie.add(kNoParent, 1);
  }
  EXPECT_LT(seconds_for(trie), kNoCliffSeconds);
}

TEST_P(TrieAttentionCost, ALongCombIsNoWorseThanItsDepth) {
  EXPECT_LT(seconds_for(comb(2000, 1, false)), kNoCliffSeconds);
}

INSTANTIATE_TEST_SUITE_P(Formats, TrieAttentionCost,
                         testing::Values(NumberFormat::kF32, NumberFormat::kBf16),
                         [](const auto& format) { return std::string(name_of(format.param)); });

}  // namespace
}  // namespace espalier::engine
