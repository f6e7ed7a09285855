#include "server/commands/request_budget.h"

#include <gtest/gtest.h>

namespace espalier::commands {
namespace {

constexpr size_t kMegabyte = size_t{1} << 20U;

MemoryLimit limit_of(size_t megabytes) {
  MemoryLimit limit;
  limit.bytes = megabytes * kMegabyte;
  return limit;
}

TEST(RequestBudget, IsAPartOfWhatTheModelsLeave) {
  for (const size_t megabytes : {1200, 1500, 2048, 4096}) {
    const auto budget = request_budget(limit_of(megabytes), 1000 * kMegabyte, 32 * kMegabyte);
    const size_t left = (megabytes - 1000) * kMegabyte;
    EXPECT_LE(budget.total(), left / 4 * 3) << megabytes;
    EXPECT_GE(budget.total(), left / 2) << megabytes;
    // One body of the largest size can be received, and read.
    EXPECT_LE(budget.http.body_bytes_max, budget.http.bodies / 2) << megabytes;
  }
}

TEST(RequestBudget, BodiesAreAsLargeAsAskedForWhereThereIsMemory) {
  const auto large = request_budget(limit_of(16384), 1000 * kMegabyte, 32 * kMegabyte);
  EXPECT_EQ(large.http.body_bytes_max, 32 * kMegabyte);
  EXPECT_EQ(large.http.bodies, 8 * 32 * kMegabyte);
  const auto small = request_budget(limit_of(1100), 1000 * kMegabyte, 32 * kMegabyte);
  EXPECT_LT(small.http.body_bytes_max, 8 * kMegabyte);
}

TEST(RequestBudget, WithoutALimitOrWithoutMemoryItIsBoundedAllTheSame) {
  const auto unbounded = request_budget(MemoryLimit(), 0, 32 * kMegabyte);
  EXPECT_LE(unbounded.total(), size_t{4} << 30U);
  const auto nothing = request_budget(limit_of(10), 1000 * kMegabyte, 32 * kMegabyte);
  EXPECT_LE(nothing.total(), kRequestBytesMin);
  EXPECT_GT(nothing.reading, 0U);
}

TEST(RequestBudget, ConnectionsFitIntoAnEighth) {
  EXPECT_EQ(connections_within_memory(limit_of(2048), 32 * 1024), 4096U);
  EXPECT_GE(connections_within_memory(limit_of(1), 32 * 1024), 64U);
}

}  // namespace
}  // namespace espalier::commands
