#include "hub/retries.h"

#include <gtest/gtest.h>

namespace espalier::hub {
namespace {

using std::chrono::seconds;

TEST(RetryAfter, IsANumberOrADate) {
  // Sun, 06 Nov 1994 08:49:37 GMT
  const auto now = std::chrono::system_clock::from_time_t(784111777);
  EXPECT_EQ(retry_after("", now), seconds(0));
  EXPECT_EQ(retry_after("7", now), seconds(7));
  EXPECT_EQ(retry_after("-7", now), seconds(0));
  EXPECT_EQ(retry_after("7x", now), seconds(0));
  EXPECT_EQ(retry_after("999999999999999999999", now), seconds(86400));
  EXPECT_EQ(retry_after("Sun, 06 Nov 1994 08:50:07 GMT", now), seconds(30));
  EXPECT_EQ(retry_after("Sun, 06 Nov 1994 08:00:00 GMT", now), seconds(0));
}

TEST(Retries, GiveUpAfterSomeFailuresInARow) {
  FetchEvents events;
  size_t warnings = 0, attempts = 0;
  events.warning = [&](const std::string&) { ++warnings; };
  Retries retries(2, events);
  const auto fail = [&]() -> int {
    ++attempts;
    throw NoAnswer("no");
  };
  EXPECT_THROW(retries.run(fail), NoAnswer);
  EXPECT_EQ(attempts, 2U);
  EXPECT_EQ(warnings, 1U);
}

TEST(Retries, DoNotRepeatWhatIsNotWorthIt) {
  const FetchEvents events;
  Retries retries(9, events);
  size_t attempts = 0;
  EXPECT_THROW(retries.run([&]() -> int {
    ++attempts;
    throw NoAnswer("untrusted", {}, false);
  }),
               NoAnswer);
  EXPECT_EQ(attempts, 1U);
}

TEST(Retries, EndWhenTheCallerHasHadEnough) {
  FetchEvents events;
  events.cancelled = [] { return true; };
  Retries retries(9, events);
  EXPECT_THROW(retries.wait(NoAnswer("no", seconds(60))), Cancelled);
}

}  // namespace
}  // namespace espalier::hub
