#include "engine/trie_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>

#include "tests/reference/attention.h"
#include "tests/unit/engine/example_tries.h"
#include "tests/unit/engine/random_matrix.h"

namespace espalier::engine {
namespace {

/// Random queries, keys and values for every row of a trie, as a fused QKV product leaves them.
struct Inputs {
  AttentionShape shape;
  size_t width;       // query_heads · head_dim
  size_t row_stride;  // of keys and values
  std::vector<float> queries, keys, values;

  Inputs(const AttentionShape& shape_in, uint32_t rows, uint32_t seed, float deviation = 1.0f)
      : shape(shape_in),
        width(shape.query_heads * shape.head_dim),
        row_stride(shape.kv_heads * shape.head_dim + 3),
        queries(random_floats(rows * width, seed, deviation)),
        keys(random_floats(rows * row_stride, seed + 1, deviation)),
        values(random_floats(rows * row_stride, seed + 2)) {}

  KvSpan kv() const { return {keys.data(), values.data(), row_stride}; }

  /// The queries of `rows`, next to each other.
  std::vector<float> queries_of(const std::vector<uint32_t>& rows) const {
    std::vector<float> out;
    for (const uint32_t row : rows) {
      out.insert(out.end(), queries.begin() + static_cast<std::ptrdiff_t>(row * width),
                 queries.begin() + static_cast<std::ptrdiff_t>((row + 1) * width));
    }
    return out;
  }
};

std::vector<float> attend(const ExampleTrie& trie, const Inputs& inputs,
                          const std::vector<uint32_t>& rows, size_t threads = 1) {
  ThreadPool pool(threads);
  const std::vector<float> queries = inputs.queries_of(rows);
  std::vector<float> out(queries.size(), std::numeric_limits<float>::quiet_NaN());
  trie_attention(pool, inputs.shape, trie.view(), rows, {queries.data(), rows.size(), inputs.width},
                 inputs.kv(), {out.data(), rows.size(), inputs.width});
  return out;
}

void expect_twin(const ExampleTrie& trie, const Inputs& inputs, const std::vector<uint32_t>& rows,
                 size_t threads, const std::string& what, double tolerance = 5e-6) {
  const std::vector<float> out = attend(trie, inputs, rows, threads);
  const std::vector<float> queries = inputs.queries_of(rows);
  const std::vector<double> expected = reference::trie_attention(
      inputs.shape, trie.view(), rows, {queries.data(), rows.size(), inputs.width}, inputs.kv());
  ASSERT_EQ(out.size(), expected.size());
  for (size_t i = 0; i < out.size(); ++i) {
    ASSERT_NEAR(out[i], expected[i], tolerance)
        << what << ", query row " << rows[i / inputs.width] << ", column " << i % inputs.width;
  }
}

TEST(TrieAttention, AgreesWithItsTwinOnChainsOfAnyLength) {
  for (const uint32_t length : {1, 3, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 300}) {
    const ExampleTrie trie = chain(length);
    const Inputs inputs({.query_heads = 4, .kv_heads = 2, .head_dim = 16}, length, length);
    expect_twin(trie, inputs, all_rows(trie), 1, "chain of " + std::to_string(length));
  }
}

TEST(TrieAttention, AgreesWithItsTwinOnTriesOfEveryKind) {
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
    const Inputs inputs({.query_heads = 4, .kv_heads = 2, .head_dim = 10}, trie.rows(), 5);
    for (const size_t threads : {1, 3}) {
      expect_twin(trie, inputs, all_rows(trie), threads, name);
      expect_twin(trie, inputs, some_rows(trie, 9, 1), threads, name + ", few rows");
    }
  }
}

TEST(TrieAttention, AgreesWithItsTwinOnRandomTries) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const uint32_t length_max = seed % 3 == 0 ? 1 : seed % 3 == 1 ? 8 : 90;
    const ExampleTrie trie = random_trie(5 + seed % 50, length_max, seed);
    const Inputs inputs({.query_heads = 2, .kv_heads = 1, .head_dim = 8}, trie.rows(), seed);
    const std::string what = "seed " + std::to_string(seed);
    expect_twin(trie, inputs, all_rows(trie), 1, what);
    expect_twin(trie, inputs, some_rows(trie, 7, seed), 3, what + ", few rows");
  }
}

TEST(TrieAttention, AgreesWithItsTwinForEveryHeadShape) {
  const ExampleTrie trie = random_trie(20, 20, 3);
  for (const size_t ratio : {1, 2, 3, 8}) {
    for (const size_t kv_heads : {1, 2, 3}) {
      for (const size_t head_dim : {2, 6, 64, 128}) {
        const Inputs inputs(
            {.query_heads = kv_heads * ratio, .kv_heads = kv_heads, .head_dim = head_dim},
            trie.rows(), 4);
        expect_twin(trie, inputs, all_rows(trie), 3,
                    std::to_string(ratio) + " x " + std::to_string(kv_heads) + " x " +
                        std::to_string(head_dim));
      }
    }
  }
}

TEST(TrieAttention, ManyHeadsMayShareOneKvHead) {
  // 300 lanes a row: more than a tile is meant to hold.
  const ExampleTrie trie = star(5, 3, 70);
  const Inputs inputs({.query_heads = 300, .kv_heads = 1, .head_dim = 4}, trie.rows(), 6);
  expect_twin(trie, inputs, some_rows(trie, 5, 1), 1, "300 heads");
}

TEST(TrieAttention, WorksOnColumnsOfWiderMatrices) {
  const ExampleTrie trie = star(40, 3, 30);
  const Inputs inputs({.query_heads = 4, .kv_heads = 2, .head_dim = 8}, trie.rows(), 7);
  const std::vector<uint32_t> rows = all_rows(trie);
  const std::vector<float> plain = attend(trie, inputs, rows);
  constexpr size_t kStride = 50;
  std::vector<float> wide(rows.size() * kStride, 7.0f);
  for (size_t r = 0; r < rows.size(); ++r) {
    std::copy_n(inputs.queries.begin() + static_cast<std::ptrdiff_t>(r * inputs.width),
                inputs.width, wide.begin() + static_cast<std::ptrdiff_t>(r * kStride));
  }
  std::vector<float> out(rows.size() * kStride, 9.0f);
  ThreadPool pool(2);
  trie_attention(pool, inputs.shape, trie.view(), rows,
                 {wide.data(), rows.size(), inputs.width, kStride}, inputs.kv(),
                 {out.data(), rows.size(), inputs.width, kStride});
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t column = i % kStride;
    EXPECT_EQ(out[i], column < inputs.width ? plain[i / kStride * inputs.width + column] : 9.0f);
  }
}

/// Rows of `trie` that the sequence ending in `node` runs through.
std::vector<uint32_t> rows_to_end_of(const ExampleTrie& trie, uint32_t node) {
  std::vector<uint32_t> rows = reference::visible_rows(trie.view(), trie.nodes[node].end - 1);
  std::sort(rows.begin(), rows.end());
  return rows;
}

TEST(TrieAttention, ATextAloneGetsWhatItGetsInABatch) {
  for (uint32_t seed = 0; seed < 12; ++seed) {
    const ExampleTrie batch = random_trie(30, seed % 2 == 0 ? 70 : 4, seed);
    const Inputs inputs({.query_heads = 4, .kv_heads = 2, .head_dim = 64}, batch.rows(), seed);
    const std::vector<float> together = attend(batch, inputs, all_rows(batch), 3);
    for (uint32_t node = 0; node < batch.nodes.size(); node += 7) {
      const std::vector<uint32_t> text = rows_to_end_of(batch, node);
      const ExampleTrie alone = chain(static_cast<uint32_t>(text.size()));
      Inputs own(inputs.shape, 0, 0);
      for (const uint32_t row : text) {
        const auto append = [row](std::vector<float>& to, const std::vector<float>& from,
                                  size_t n) {
          to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(row * n),
                    from.begin() + static_cast<std::ptrdiff_t>((row + 1) * n));
        };
        append(own.queries, inputs.queries, inputs.width);
        append(own.keys, inputs.keys, inputs.row_stride);
        append(own.values, inputs.values, inputs.row_stride);
      }
      const std::vector<float> out = attend(alone, own, all_rows(alone));
      for (size_t i = 0; i < out.size(); ++i) {
        ASSERT_NEAR(out[i], together[text[i / inputs.width] * inputs.width + i % inputs.width],
                    1e-6)
            << "seed " << seed << ", node " << node;
      }
    }
  }
}

TEST(TrieAttention, TheNumberOfThreadsChangesNoBit) {
  const ExampleTrie trie = star(150, 10, 40);
  const Inputs inputs({.query_heads = 8, .kv_heads = 2, .head_dim = 32}, trie.rows(), 8);
  EXPECT_EQ(attend(trie, inputs, all_rows(trie), 1), attend(trie, inputs, all_rows(trie), 4));
}

TEST(TrieAttention, ExtremeLogitsStayFinite) {
  const ExampleTrie trie = star(100, 5, 70);
  // Products of about ±1e4 after scaling: e^logit alone is far beyond f32.
  const Inputs inputs({.query_heads = 2, .kv_heads = 1, .head_dim = 16}, trie.rows(), 9, 50.0f);
  const std::vector<float> queries = inputs.queries;
  const double logit = std::abs(std::inner_product(queries.begin(), queries.begin() + 16,
                                                   inputs.keys.begin(), 0.0)) /
                       4.0;
  ASSERT_GT(logit, 100.0);
  // A logit of 1e4 is exact to 1e-3, and so is then its weight.
  expect_twin(trie, inputs, all_rows(trie), 1, "extreme logits", 5e-3);
}

TEST(TrieAttention, AnOverwhelmingKeyOfAnotherTextDoesNotLeak) {
  // Two texts in one tile; the first one's keys would win every softmax.
  const ExampleTrie trie = forest(2, 16);
  Inputs inputs({.query_heads = 1, .kv_heads = 1, .head_dim = 4}, trie.rows(), 10);
  for (size_t i = 0; i < 16 * inputs.row_stride; ++i) {
    inputs.keys[i] = 1e4f;
    inputs.values[i] = 1e6f;
  }
  expect_twin(trie, inputs, {16, 20, 31}, 1, "second text alone");
  const std::vector<float> out = attend(trie, inputs, all_rows(trie));
  for (size_t i = 16 * inputs.width; i < out.size(); ++i) EXPECT_LT(std::abs(out[i]), 10.0f);
}

TEST(TrieAttention, NoQueryRowsAreNoWork) {
  const ExampleTrie trie = chain(5);
  const Inputs inputs({.query_heads = 2, .kv_heads = 1, .head_dim = 4}, trie.rows(), 11);
  EXPECT_TRUE(attend(trie, inputs, {}).empty());
}

TEST(TrieAttention, RefusesShapesThatDisagree) {
  const ExampleTrie trie = chain(5);
  const Inputs inputs({.query_heads = 2, .kv_heads = 1, .head_dim = 4}, trie.rows(), 12);
  const std::vector<uint32_t> rows = all_rows(trie);
  std::vector<float> out(inputs.queries.size());
  ThreadPool pool(1);
  const auto run = [&](const AttentionShape& shape, size_t query_cols) {
    trie_attention(pool, shape, trie.view(), rows, {inputs.queries.data(), rows.size(), query_cols},
                   inputs.kv(), {out.data(), rows.size(), inputs.width});
  };
  EXPECT_THROW(run({.query_heads = 3, .kv_heads = 2, .head_dim = 4}, 8), std::invalid_argument);
  EXPECT_THROW(run({.query_heads = 2, .kv_heads = 0, .head_dim = 4}, 8), std::invalid_argument);
  EXPECT_THROW(run({.query_heads = 2, .kv_heads = 1, .head_dim = 4}, 7), std::invalid_argument);
}

/// Runs attention over all rows once and returns the seconds it took.
double seconds_for(const ExampleTrie& trie, const std::vector<uint32_t>& rows) {
  const Inputs inputs({.query_heads = 2, .kv_heads = 1, .head_dim = 16}, trie.rows(), 13);
  const auto start = std::chrono::steady_clock::now();
  const std::vector<float> out = attend(trie, inputs, rows, 2);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](float x) { return std::isfinite(x); }));
  return elapsed.count();
}

// Each of these takes well under a second of linear work even with sanitizers; anything that is
// quadratic in the number of nodes takes minutes.
constexpr double kNoCliffSeconds = 20.0;

TEST(TrieAttentionCost, OneTokenTextsAreNoCliff) {
  const ExampleTrie trie = forest(16384, 1);
  EXPECT_LT(seconds_for(trie, all_rows(trie)), kNoCliffSeconds);
}

TEST(TrieAttentionCost, ManyTextsOfOneMoreTokenAreNoCliff) {
  const ExampleTrie trie = star(64, 16384, 1);
  EXPECT_LT(seconds_for(trie, all_rows(trie)), kNoCliffSeconds);
}

TEST(TrieAttentionCost, BinaryBranchingIsNoCliff) {
  const ExampleTrie trie = binary_tree(14, 1);
  EXPECT_LT(seconds_for(trie, all_rows(trie)), kNoCliffSeconds);
}

TEST(TrieAttentionCost, AShortTextAfterADeepOneDoesNotPayForIt) {
  // Tiles that begin deep in a long text and go on with one-token texts.
  ExampleTrie trie;
  for (int i = 0; i < 4; ++i) {
    trie.add(kNoParent, 2000);
    for (int k = 0; k < 1000; ++k) trie.add(kNoParent, 1);
  }
  EXPECT_LT(seconds_for(trie, all_rows(trie)), kNoCliffSeconds);
}

TEST(TrieAttentionCost, ALongCombIsNoWorseThanItsDepth) {
  const ExampleTrie trie = comb(2000, 1, false);
  EXPECT_LT(seconds_for(trie, all_rows(trie)), kNoCliffSeconds);
}

TEST(TrieAttentionCost, ATextOf32768TokensWorks) {
  const ExampleTrie trie = chain(32768);
  const Inputs inputs({.query_heads = 1, .kv_heads = 1, .head_dim = 4}, trie.rows(), 14);
  expect_twin(trie, inputs, {0, 63, 64, 16383, 32767}, 2, "32 768 tokens");
}

}  // namespace
}  // namespace espalier::engine
