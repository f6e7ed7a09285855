#include "engine/query_tiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/reference/attention.h"
#include "tests/unit/engine/example_tries.h"

namespace espalier::engine {
namespace {

std::vector<QueryTile> cut(const ExampleTrie& trie, const std::vector<uint32_t>& rows,
                           size_t rows_max, size_t extra_keys_max) {
  std::vector<QueryTile> tiles = {{.first = 7, .count = 7}};  // of another call
  cut_query_tiles(trie.view(), rows, rows_max, extra_keys_max, tiles);
  return tiles;
}

TEST(QueryTiles, ThePathOfARowIsWhatItMaySee) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const ExampleTrie trie = random_trie(40, 5, seed);
    for (uint32_t row = 0; row < trie.rows(); ++row) {
      std::vector<uint32_t> expected = reference::visible_rows(trie.view(), row);
      std::sort(expected.begin(), expected.end());
      std::vector<PathRow> path;
      append_path(trie.view(), row, 0, path);
      ASSERT_EQ(path.size(), expected.size());
      for (size_t i = 0; i < path.size(); ++i) {
        EXPECT_EQ(path[i].row, expected[i]);
        EXPECT_EQ(path[i].position, i);
      }
    }
  }
}

TEST(QueryTiles, KeysOfATileAreTheUnionOfItsPathsOnceEach) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const ExampleTrie trie = random_trie(60, 7, seed);
    const std::vector<uint32_t> rows = some_rows(trie, 1 + seed % 4, seed);
    for (const QueryTile& tile : cut(trie, rows, 8, 16)) {
      std::vector<PathRow> keys;
      append_path(trie.view(), rows[tile.first], 0, keys);
      const size_t first_path = keys.size();
      std::set<uint32_t> expected;
      for (size_t i = 0; i < tile.count; ++i) {
        const uint32_t row = rows[tile.first + i];
        if (i > 0) append_path(trie.view(), row, rows[tile.first + i - 1] + 1, keys);
        for (const uint32_t key : reference::visible_rows(trie.view(), row)) expected.insert(key);
      }
      ASSERT_EQ(keys.size(), expected.size());
      // Row order without sorting.
      EXPECT_TRUE(std::equal(keys.begin(), keys.end(), expected.begin(),
                             [](const PathRow& key, uint32_t row) { return key.row == row; }));
      EXPECT_LE(keys.size() - first_path, 16u);
    }
  }
}

TEST(QueryTiles, CoverEveryQueryRowInOrder) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const ExampleTrie trie = random_trie(100, 9, seed);
    const std::vector<uint32_t> rows = some_rows(trie, 2, seed);
    size_t next = 0;
    for (const QueryTile& tile : cut(trie, rows, 32, 64)) {
      EXPECT_EQ(tile.first, next);
      EXPECT_GE(tile.count, 1u);
      EXPECT_LE(tile.count, 32u);
      next += tile.count;
    }
    EXPECT_EQ(next, rows.size());
  }
}

TEST(QueryTiles, ALoneTextIsCutIntoFullTiles) {
  const ExampleTrie trie = chain(100);
  const std::vector<QueryTile> tiles = cut(trie, all_rows(trie), 32, 64);
  ASSERT_EQ(tiles.size(), 4u);
  EXPECT_EQ(tiles[0].count, 32u);
  EXPECT_EQ(tiles[3].count, 4u);
}

TEST(QueryTiles, ARowWithALongWayOfItsOwnStandsAlone) {
  // Ends of sequences with 65 own rows each: more than the 64 extra keys of a tile.
  const ExampleTrie far = star(10, 5, 65);
  const std::vector<uint32_t> far_ends = {74, 139, 204, 269, 334};
  EXPECT_EQ(cut(far, far_ends, 32, 64).size(), 5u);
  // With 16 own rows each, four more fit beside the first.
  const ExampleTrie near = star(10, 5, 16);
  const std::vector<uint32_t> near_ends = {25, 41, 57, 73, 89};
  EXPECT_EQ(cut(near, near_ends, 32, 64).size(), 1u);
}

TEST(QueryTiles, NoQueryRowsGiveNoTiles) {
  const ExampleTrie trie = chain(5);
  EXPECT_TRUE(cut(trie, {}, 32, 64).empty());
}

}  // namespace
}  // namespace espalier::engine
