#include "server/http/body_receiver.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace espalier::server {
namespace {

constexpr size_t kMiB = size_t{1} << 20U;

TEST(BodyBudget, SharesAreGivenBack) {
  BodyBudget budget(1000);
  {
    BodyBudget::Share share(budget);
    EXPECT_TRUE(share.grow(800));
    EXPECT_FALSE(share.grow(900));
  }
  BodyBudget::Share share(budget);
  EXPECT_TRUE(share.grow(875));
}

TEST(BodyBudget, LastEighthIsForSmallBodies) {
  BodyBudget budget(256 * kMiB);
  std::vector<std::unique_ptr<BodyBudget::Share>> large;
  bool fits = true;
  while (fits) {
    large.push_back(std::make_unique<BodyBudget::Share>(budget));
    fits = large.back()->grow(8 * kMiB);
  }
  EXPECT_EQ(large.size(), 29U);  // the last of them is empty: 28 of 8 MiB are seven eighths
  BodyBudget::Share small(budget);
  EXPECT_TRUE(small.grow(kMiB));
  EXPECT_FALSE(small.grow(1));
}

TEST(BodyReceiver, RequestWithoutABodyIsComplete) {
  BodyBudget budget(1000);
  const BodyReceiver receiver(RequestHead{}, 1000, std::chrono::seconds(1), budget);
  EXPECT_EQ(receiver.state(), BodyState::kComplete);
}

}  // namespace
}  // namespace espalier::server
