// A row's attention depends, bit for bit, on its own path alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "tests/reference/attention.h"
#include "tests/unit/engine/attention_inputs.h"

namespace espalier::engine {
namespace {

/// The rows on the path of `row`, from the root.
std::vector<uint32_t> path_of(const ExampleTrie& trie, uint32_t row) {
  std::vector<uint32_t> rows = reference::visible_rows(trie.view(), row);
  std::sort(rows.begin(), rows.end());
  return rows;
}

class TrieAttentionBits : public AttentionKernelTest {
 protected:
  AttentionInputs inputs(const AttentionShape& shape, const ExampleTrie& trie,
                         uint32_t seed) const {
    return {shape, GetParam().format, trie.rows(), seed};
  }
  Matrix run(const ExampleTrie& trie, const AttentionInputs& given,
             const std::vector<uint32_t>& rows, size_t threads = 1) const {
    return attend(GetParam().isa, trie, given, rows, threads);
  }
  /// The result of the last row of a text that nobody shares, computed with no other query.
  std::string alone(const ExampleTrie& trie, const AttentionInputs& given, uint32_t row) const {
    const std::vector<uint32_t> path = path_of(trie, row);
    const ExampleTrie text = chain(static_cast<uint32_t>(path.size()));
    return run(text, given.of_rows(path), {text.rows() - 1}).row_bytes(0);
  }
};

TEST_P(TrieAttentionBits, ARowAloneGetsWhatItGetsInABatch) {
  for (uint32_t seed = 0; seed < 24; ++seed) {
    const uint32_t length_max = seed % 3 == 0 ? 70 : seed % 3 == 1 ? 4 : 15;
    const ExampleTrie batch = random_trie(40, length_max, seed);
    const AttentionShape shape{.query_heads = seed % 2 == 0 ? 4u : 6u,
                               .kv_heads = 2,
                               .head_dim = seed % 4 == 0 ? 64u : 10u};
    const AttentionInputs given = inputs(shape, batch, seed);
    const Matrix together = run(batch, given, all_rows(batch), 3);
    for (uint32_t row = 0; row < batch.rows(); row += 3) {
      ASSERT_EQ(together.row_bytes(row), alone(batch, given, row))
          << "seed " << seed << ", row " << row;
    }
  }
}

TEST_P(TrieAttentionBits, ATextAloneGetsWhatItGetsInABatch) {
  for (const ExampleTrie& batch : {star(70, 9, 33), star(200, 40, 1), comb(90, 2, false),
                                   comb(90, 2, true), forest(40, 3), binary_tree(5, 13)}) {
    const AttentionInputs given =
        inputs({.query_heads = 4, .kv_heads = 2, .head_dim = 32}, batch, 1);
    const Matrix together = run(batch, given, all_rows(batch), 2);
    for (const TrieNode& node : batch.nodes) {
      const std::vector<uint32_t> path = path_of(batch, node.end - 1);
      const ExampleTrie text = chain(static_cast<uint32_t>(path.size()));
      const Matrix out = run(text, given.of_rows(path), all_rows(text));
      for (size_t i = 0; i < path.size(); ++i) {
        ASSERT_EQ(out.row_bytes(i), together.row_bytes(path[i])) << "row " << path[i];
      }
    }
  }
}

TEST_P(TrieAttentionBits, OtherQueriesOfTheCallChangeNothing) {
  for (uint32_t seed = 0; seed < 12; ++seed) {
    const ExampleTrie trie = random_trie(60, seed % 2 == 0 ? 30 : 3, seed);
    const AttentionInputs given =
        inputs({.query_heads = 6, .kv_heads = 2, .head_dim = 24}, trie, seed);
    const Matrix all = run(trie, given, all_rows(trie));
    for (const uint32_t step : {2u, 5u, 40u}) {
      const std::vector<uint32_t> rows = some_rows(trie, step, seed);
      const Matrix few = run(trie, given, rows, 2);
      for (size_t i = 0; i < rows.size(); ++i) {
        ASSERT_EQ(few.row_bytes(i), all.row_bytes(rows[i])) << "seed " << seed;
      }
    }
    // Every possible cut into tiles.
    for (uint32_t first = 1; first < std::min(40u, trie.rows()); ++first) {
      std::vector<uint32_t> rows = all_rows(trie);
      rows.erase(rows.begin(), rows.begin() + first);
      const Matrix rest = run(trie, given, rows);
      for (size_t i = 0; i < rows.size(); i += 5) {
        ASSERT_EQ(rest.row_bytes(i), all.row_bytes(rows[i])) << "seed " << seed;
      }
    }
  }
}

TEST_P(TrieAttentionBits, TheNumberOfThreadsChangesNothing) {
  const ExampleTrie trie = star(150, 10, 40);
  const AttentionInputs given = inputs({.query_heads = 8, .kv_heads = 2, .head_dim = 32}, trie, 8);
  const Matrix one = run(trie, given, all_rows(trie), 1);
  for (const size_t threads : {2, 3}) {
    const Matrix more = run(trie, given, all_rows(trie), threads);
    for (size_t row = 0; row < trie.rows(); ++row) {
      ASSERT_EQ(one.row_bytes(row), more.row_bytes(row));
    }
  }
}

TEST_P(TrieAttentionBits, ScratchOfOtherShapesChangesNothing) {
  ThreadPool pool(2);
  AttentionScratch scratch;
  for (const size_t head_dim : {128, 6, 34, 128}) {
    for (const uint32_t length : {100, 3, 70}) {
      const ExampleTrie trie = star(length, 3, 5);
      const AttentionInputs given =
          inputs({.query_heads = 2, .kv_heads = 1, .head_dim = head_dim}, trie, length);
      const std::vector<uint32_t> rows = all_rows(trie);
      Matrix out(given.format, rows.size(), given.width(), {});
      trie_attention_with(GetParam().isa, pool, given.shape, trie.view(), rows,
                          given.queries.view(), given.kv(), out.view(), scratch);
      const Matrix fresh = run(trie, given, rows);
      for (const uint32_t row : rows) ASSERT_EQ(out.row_bytes(row), fresh.row_bytes(row));
    }
  }
}

TEST_P(TrieAttentionBits, SignsOfZeroAndSubnormalNumbersDoNotDependOnNeighbours) {
  const ExampleTrie trie = star(60, 6, 20);
  AttentionInputs given = inputs({.query_heads = 2, .kv_heads = 1, .head_dim = 16}, trie, 3);
  const std::vector<float> values = {-0.0f, 0.0f, -1e-39f, 1e-38f, -1e-30f, -1e-45f};
  for (size_t row = 0; row < trie.rows(); ++row) {
    for (size_t i = 0; i < 16; ++i) {
      given.values.set(row, i, values[(row * 7 + i) % values.size()]);
      // So that weights of many sizes meet them.
      given.keys.set(row, i, static_cast<float>((row * 5 + i) % 11) - 5.0f);
    }
  }
  const Matrix together = run(trie, given, all_rows(trie));
  for (uint32_t row = 0; row < trie.rows(); ++row) {
    ASSERT_EQ(together.row_bytes(row), alone(trie, given, row)) << "row " << row;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, TrieAttentionBits, testing::ValuesIn(kAllAttentionKernels),
                         name_of_kernel);

}  // namespace
}  // namespace espalier::engine
