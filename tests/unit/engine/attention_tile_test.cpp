// Which keys meet which queries, seen by loops that only take notes.
#include "engine/attention_tile.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/reference/attention.h"
#include "tests/unit/engine/attention_inputs.h"

namespace espalier::engine {
namespace {

/// What the loops below were called with. Rows are told from their pointers.
struct Notes {
  const std::byte* keys = nullptr;
  const std::byte* values = nullptr;
  size_t row_stride = 0;
  std::vector<std::vector<uint32_t>> seen;  // of each lane, in order
  size_t products = 0;                      // lanes × slots
};

Notes notes;

void note_step(const AttentionTile& tile, const AttentionStep& step, float) {
  ASSERT_GE(step.slots, 1u);
  ASSERT_LE(step.slots, kKeyRange);
  ASSERT_LE(step.first_lane + step.lanes, tile.lanes);
  notes.products += step.lanes * step.slots;
  size_t most = 0;
  for (size_t lane = 0; lane < step.lanes; ++lane) {
    const auto visible = static_cast<size_t>(step.visible[lane]);
    ASSERT_GE(visible, 1u);
    ASSERT_LE(visible, step.slots);
    most = std::max(most, visible);
    for (size_t slot = 0; slot < visible; ++slot) {
      const auto offset = static_cast<size_t>(step.keys[slot] - notes.keys);
      EXPECT_EQ(static_cast<size_t>(step.values[slot] - notes.values), offset);
      std::vector<uint32_t>& seen = notes.seen[step.first_lane + lane];
      EXPECT_EQ(seen.size() % kKeyRange, slot);  // its position in the range
      seen.push_back(static_cast<uint32_t>(offset / notes.row_stride));
    }
  }
  EXPECT_EQ(most, step.slots);
}

const AttentionLoops kNotingLoops = {
    .pack_queries = [](const AttentionTile&, const std::byte* const*) {},
    .attend = note_step,
    .write = [](const AttentionTile&, size_t, std::byte*) {},
};

/// Runs over tiles of up to 32 of the rows, checks what each sees, and returns the products that
/// were made beyond those that are seen.
size_t check_tiles(const ExampleTrie& trie, const std::vector<uint32_t>& rows) {
  const AttentionInputs inputs({.query_heads = 3, .kv_heads = 1, .head_dim = 2}, NumberFormat::kF32,
                               trie.rows(), 1);
  const KvSpan kv = inputs.kv();
  const TrieView view = trie.view();
  Matrix out(NumberFormat::kF32, trie.rows(), inputs.width(), {});
  std::vector<QueryTile> tiles;
  cut_query_tiles(view, rows, 32, 512, tiles);
  TileScratch scratch;
  scratch.reserve(32, 3, 2);
  size_t wasted = 0;
  for (const QueryTile& tile : tiles) {
    notes = {kv.keys, kv.values, kv.row_stride, {}, 0};
    notes.seen.resize(tile.count * 3);
    const std::span<const uint32_t> own = std::span(rows).subspan(tile.first, tile.count);
    TileAttention(kNotingLoops, inputs.shape, view, kv, 0, own, scratch)
        .run(inputs.queries.view().row_range(0, tile.count), out.view().row_range(0, tile.count));
    size_t visible = 0;
    for (size_t lane = 0; lane < notes.seen.size(); ++lane) {
      std::vector<uint32_t> expected = reference::visible_rows(view, own[lane / 3]);
      std::sort(expected.begin(), expected.end());
      EXPECT_EQ(notes.seen[lane], expected) << "row " << own[lane / 3];
      visible += expected.size();
    }
    wasted += notes.products - visible;
  }
  return wasted;
}

TEST(AttentionTile, EveryLaneSeesItsPathOnceAndInOrder) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const uint32_t length_max = seed % 3 == 0 ? 1 : seed % 3 == 1 ? 8 : 90;
    const ExampleTrie trie = random_trie(5 + seed % 50, length_max, seed);
    check_tiles(trie, all_rows(trie));
    check_tiles(trie, some_rows(trie, 2 + seed % 9, seed));
  }
}

TEST(AttentionTile, NoRowComputesMoreThanARangeOfProductsInVain) {
  for (const ExampleTrie& trie :
       {chain(700), forest(900, 1), star(64, 900, 1), star(70, 30, 9), comb(200, 1, true),
        comb(200, 1, false), binary_tree(9, 1), binary_tree(5, 30)}) {
    EXPECT_LE(check_tiles(trie, all_rows(trie)), trie.rows() * 3 * kKeyRange);
    const std::vector<uint32_t> few = some_rows(trie, 6, 1);
    EXPECT_LE(check_tiles(trie, few), few.size() * 3 * kKeyRange);
  }
  // Texts of a single token have nothing to waste.
  EXPECT_EQ(check_tiles(forest(900, 1), all_rows(forest(900, 1))), 0u);
}

}  // namespace
}  // namespace espalier::engine
