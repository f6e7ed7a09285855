#include "scheduler/flat_index.h"

#include <gtest/gtest.h>

namespace espalier::scheduler {
namespace {

TEST(FlatIndex, FindsWhatWasInsertedAndNothingElse) {
  FlatIndex index(1);
  for (uint32_t i = 0; i < 10'000; ++i) {
    EXPECT_TRUE(index.find_or_insert(uint64_t{i} << 32U, i).inserted);
  }
  for (uint32_t i = 0; i < 10'000; ++i) {
    const uint32_t* value = index.find(uint64_t{i} << 32U);
    ASSERT_NE(value, nullptr);
    EXPECT_EQ(*value, i);
    EXPECT_EQ(index.find((uint64_t{i} << 32U) + 1), nullptr);
  }
}

TEST(FlatIndex, KeepsTheFirstValueOfAKeyUntilItIsOverwritten) {
  FlatIndex index(2);
  index.find_or_insert(7, 70);
  const FlatIndex::Place place = index.find_or_insert(7, 71);
  EXPECT_FALSE(place.inserted);
  EXPECT_EQ(*place.value, 70U);
  *place.value = 72;
  EXPECT_EQ(*index.find(7), 72U);
}

TEST(FlatIndex, ForgetsEverythingWhenCleared) {
  FlatIndex index(3);
  index.find_or_insert(0, 1);
  index.find_or_insert(UINT64_MAX, 2);
  index.clear();
  EXPECT_EQ(index.find(0), nullptr);
  EXPECT_EQ(index.find(UINT64_MAX), nullptr);
  EXPECT_TRUE(index.find_or_insert(0, 3).inserted);
  EXPECT_EQ(*index.find(0), 3U);
}

}  // namespace
}  // namespace espalier::scheduler
