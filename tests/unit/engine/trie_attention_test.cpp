// Trie attention against its naive twin.
#include "engine/trie_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "tests/reference/attention.h"
#include "tests/unit/engine/attention_inputs.h"

namespace espalier::engine {
namespace {

/// Differences to the twin, which computes with the same (rounded) inputs. f32: `tolerance`. bf16:
/// weights are rounded by up to 2^-8 of themselves, which moves Σ weight · value by up to
/// 2^-8 · Σ weight · |value|, and the result is rounded by up to 2^-8 of itself.
void expect_twin(Isa isa, const ExampleTrie& trie, const AttentionInputs& inputs,
                 const std::vector<uint32_t>& rows, size_t threads, const std::string& what,
                 double tolerance = 5e-6) {
  const Matrix out = attend(isa, trie, inputs, rows, threads);
  const Matrix queries = inputs.queries.rows(rows);
  const auto twin = [&](bool magnitudes) {
    return reference::trie_attention(inputs.shape, trie.view(), rows, queries.view(), inputs.kv(),
                                     magnitudes);
  };
  const std::vector<double> expected = twin(false);
  const std::vector<double> magnitudes = twin(true);
  const double rounding = inputs.format == NumberFormat::kBf16 ? std::exp2(-8) : 0.0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double value =
        reference::element(inputs.format, out.view().row(i / inputs.width()), i % inputs.width());
    const double allowed =
        tolerance + 1.01 * rounding * (magnitudes[i] + std::abs(expected[i]) + tolerance);
    ASSERT_NEAR(value, expected[i], allowed)
        << what << ", query row " << rows[i / inputs.width()] << ", column " << i % inputs.width();
  }
}

class TrieAttention : public AttentionKernelTest {
 protected:
  AttentionInputs inputs(const AttentionShape& shape, const ExampleTrie& trie, uint32_t seed,
                         float deviation = 1.0f) const {
    return {shape, GetParam().format, trie.rows(), seed, deviation};
  }
  void expect_twin_of(const ExampleTrie& trie, const AttentionInputs& given,
                      const std::vector<uint32_t>& rows, size_t threads, const std::string& what,
                      double tolerance = 5e-6) const {
    expect_twin(GetParam().isa, trie, given, rows, threads, what, tolerance);
  }
};

TEST_P(TrieAttention, AgreesWithItsTwinOnChainsOfAnyLength) {
  for (const uint32_t length : {1, 2, 3, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 300}) {
    const ExampleTrie trie = chain(length);
    expect_twin_of(trie, inputs({.query_heads = 4, .kv_heads = 2, .head_dim = 16}, trie, length),
                   all_rows(trie), 1, "chain of " + std::to_string(length));
  }
}

TEST_P(TrieAttention, AgreesWithItsTwinOnTriesOfEveryKind) {
  const std::vector<std::pair<std::string, ExampleTrie>> tries = {
      {"a forest of one-row texts", forest(130, 1)},
      {"a forest", forest(7, 45)},
      {"a star", star(70, 9, 33)},
      {"a star with short rays", star(200, 90, 1)},
      {"a star with a one-row hub", star(1, 40, 5)},
      {"a comb, teeth first", comb(150, 1, true)},
      {"a comb, teeth last", comb(150, 1, false)},
      {"a comb with long teeth", comb(70, 6, false)},
      {"a binary tree", binary_tree(8, 1)},
      {"a binary tree of long nodes", binary_tree(4, 37)},
  };
  for (const auto& [name, trie] : tries) {
    const AttentionInputs given =
        inputs({.query_heads = 4, .kv_heads = 2, .head_dim = 10}, trie, 5);
    for (const size_t threads : {1, 3}) {
      expect_twin_of(trie, given, all_rows(trie), threads, name);
      expect_twin_of(trie, given, some_rows(trie, 9, 1), threads, name + ", few rows");
    }
  }
}

TEST_P(TrieAttention, AgreesWithItsTwinOnRandomTries) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const uint32_t length_max = seed % 3 == 0 ? 1 : seed % 3 == 1 ? 8 : 90;
    const ExampleTrie trie = random_trie(5 + seed % 50, length_max, seed);
    const AttentionInputs given =
        inputs({.query_heads = 2, .kv_heads = 1, .head_dim = 8}, trie, seed);
    const std::string what = "seed " + std::to_string(seed);
    expect_twin_of(trie, given, all_rows(trie), 1, what);
    expect_twin_of(trie, given, some_rows(trie, 7, seed), 3, what + ", few rows");
  }
}

TEST_P(TrieAttention, AgreesWithItsTwinForEveryHeadShape) {
  const ExampleTrie trie = random_trie(20, 20, 3);
  for (const size_t ratio : {1, 2, 3, 8}) {
    for (const size_t kv_heads : {1, 3}) {
      for (const size_t head_dim : {2, 6, 16, 34, 48, 64, 128, 166}) {
        const AttentionShape shape{
            .query_heads = kv_heads * ratio, .kv_heads = kv_heads, .head_dim = head_dim};
        expect_twin_of(trie, inputs(shape, trie, 4), all_rows(trie), 2,
                       std::to_string(ratio) + " x " + std::to_string(kv_heads) + " x " +
                           std::to_string(head_dim));
      }
    }
  }
}

TEST_P(TrieAttention, ManyHeadsMayShareOneKvHead) {
  // 300 lanes a row: more than a tile is meant to hold.
  const ExampleTrie trie = star(5, 3, 70);
  const AttentionShape shape{.query_heads = 300, .kv_heads = 1, .head_dim = 4};
  expect_twin_of(trie, inputs(shape, trie, 6), some_rows(trie, 5, 1), 1, "300 heads");
}

TEST_P(TrieAttention, WritesNothingBesideItsColumns) {
  const ExampleTrie trie = star(40, 3, 30);
  const AttentionInputs given = inputs({.query_heads = 4, .kv_heads = 2, .head_dim = 10}, trie, 7);
  const std::vector<uint32_t> rows = all_rows(trie);
  const Matrix plain = attend(GetParam().isa, trie, given, rows);
  constexpr size_t kBefore = 3, kAfter = 5;
  Matrix wide(given.format, rows.size(), kBefore + given.width() + kAfter, {});
  const Matrix untouched = wide;
  ThreadPool pool(2);
  AttentionScratch scratch;
  trie_attention_with(GetParam().isa, pool, given.shape, trie.view(), rows, given.queries.view(),
                      given.kv(), wide.view().col_range(kBefore, given.width()), scratch);
  const size_t size = bytes_of(given.format);
  for (size_t r = 0; r < rows.size(); ++r) {
    const std::string row = wide.row_bytes(r);
    EXPECT_EQ(row.substr(kBefore * size, given.width() * size), plain.row_bytes(r));
    EXPECT_EQ(row.substr(0, kBefore * size), untouched.row_bytes(r).substr(0, kBefore * size));
    EXPECT_EQ(row.substr(row.size() - kAfter * size),
              untouched.row_bytes(r).substr(row.size() - kAfter * size));
  }
}

TEST_P(TrieAttention, ExtremeLogitsStayFinite) {
  const ExampleTrie trie = star(100, 5, 70);
  // Products of about ±1e4 after scaling: e^logit alone is far beyond f32.
  const AttentionInputs given =
      inputs({.query_heads = 2, .kv_heads = 1, .head_dim = 16}, trie, 9, 50.0f);
  // A logit of 1e4 is exact to 1e-3, and so is then its weight.
  expect_twin_of(trie, given, all_rows(trie), 1, "extreme logits", 5e-3);
}

TEST_P(TrieAttention, LogitsOfHugeAndTinyNumbersAreNoCliff) {
  const ExampleTrie trie = chain(100);
  AttentionInputs given = inputs({.query_heads = 2, .kv_heads = 1, .head_dim = 16}, trie, 10);
  for (size_t row = 0; row < trie.rows(); ++row) {
    for (size_t i = 0; i < 16; ++i) {
      const float sign = (row + i) % 2 == 0 ? 1.0f : -1.0f;
      given.keys.set(row, i, sign * (row % 3 == 0 ? 1e18f : 1e-38f));
      given.queries.set(row, i, row % 2 == 0 ? 1e18f : 1e-30f);
      given.values.set(row, i, row % 5 == 0 ? -0.0f : 1e-39f);
    }
  }
  const Matrix out = attend(GetParam().isa, trie, given, all_rows(trie));
  for (size_t row = 0; row < trie.rows(); ++row) {
    for (size_t i = 0; i < given.width(); ++i) {
      EXPECT_LE(std::abs(reference::element(given.format, out.view().row(row), i)), 1.1e-39);
    }
  }
}

TEST_P(TrieAttention, AnOverwhelmingKeyOfAnotherTextDoesNotLeak) {
  // Two texts in one tile; the first one's keys would win every softmax.
  const ExampleTrie trie = forest(2, 16);
  AttentionInputs given = inputs({.query_heads = 1, .kv_heads = 1, .head_dim = 4}, trie, 10);
  for (size_t row = 0; row < 16; ++row) {
    for (size_t i = 0; i < 4; ++i) {
      given.keys.set(row, i, 1e4f);
      given.values.set(row, i, std::numeric_limits<float>::infinity());
    }
  }
  expect_twin_of(trie, given, {16, 20, 31}, 1, "second text alone");
  const Matrix out = attend(GetParam().isa, trie, given, all_rows(trie));
  for (size_t row = 16; row < 32; ++row) {
    for (size_t i = 0; i < given.width(); ++i) {
      EXPECT_LT(std::abs(reference::element(given.format, out.view().row(row), i)), 10.0);
    }
  }
}

TEST_P(TrieAttention, NoQueryRowsAreNoWork) {
  const ExampleTrie trie = chain(5);
  const AttentionInputs given = inputs({.query_heads = 2, .kv_heads = 1, .head_dim = 4}, trie, 11);
  EXPECT_EQ(attend(GetParam().isa, trie, given, {}).view().rows, 0u);
}

TEST_P(TrieAttention, RefusesShapesThatDisagree) {
  const ExampleTrie trie = chain(5);
  const AttentionInputs given = inputs({.query_heads = 2, .kv_heads = 1, .head_dim = 4}, trie, 12);
  const std::vector<uint32_t> rows = all_rows(trie);
  Matrix out(given.format, rows.size(), given.width(), {});
  ThreadPool pool(1);
  AttentionScratch scratch;
  const auto run = [&](const AttentionShape& shape, ConstActivations queries) {
    trie_attention_with(GetParam().isa, pool, shape, trie.view(), rows, queries, given.kv(),
                        out.view(), scratch);
  };
  const ConstActivations queries = given.queries.view();
  EXPECT_THROW(run({.query_heads = 3, .kv_heads = 2, .head_dim = 4}, queries),
               std::invalid_argument);
  EXPECT_THROW(run({.query_heads = 2, .kv_heads = 0, .head_dim = 4}, queries),
               std::invalid_argument);
  EXPECT_THROW(run(given.shape, queries.col_range(0, 7)), std::invalid_argument);
  EXPECT_THROW(run(given.shape, queries.row_range(0, 4)), std::invalid_argument);
  ConstActivations int8 = queries;
  int8.format = NumberFormat::kInt8;
  EXPECT_THROW(run(given.shape, int8), std::invalid_argument);
}

TEST_P(TrieAttention, ATextOf32768TokensWorks) {
  const ExampleTrie trie = chain(32768);
  const AttentionInputs given = inputs({.query_heads = 1, .kv_heads = 1, .head_dim = 4}, trie, 14);
  expect_twin_of(trie, given, {0, 63, 64, 16383, 32767}, 2, "32 768 tokens");
}

INSTANTIATE_TEST_SUITE_P(Kernels, TrieAttention, testing::ValuesIn(kAllAttentionKernels),
                         name_of_kernel);

}  // namespace
}  // namespace espalier::engine
