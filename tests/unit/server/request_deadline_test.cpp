#include "server/service/request_deadline.h"

#include <gmock/gmock.h>

#include <limits>

namespace espalier::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

const scheduler::Clock::time_point kStart{seconds(1000)};

TEST(RequestTimeout, IsAWholeNumberOfMilliseconds) {
  EXPECT_EQ(parse_request_timeout("1"), milliseconds(1));
  EXPECT_EQ(parse_request_timeout("86400000"), milliseconds(86400000));
  for (const char* wrong : {"", "0", "-1", "+1", "1.5", "1e3", "86400001", "99999999999999999999",
                            "10s", "soon", "1, 2"}) {
    const auto refused = parse_request_timeout(wrong);
    ASSERT_FALSE(refused) << wrong;
    EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidRequest);
    EXPECT_EQ(refused.error().param, "X-Request-Timeout-Ms");
    EXPECT_THAT(refused.error().message, HasSubstr("86400000"));
  }
}

TEST(RequestDeadline, IsFiveMinutesUntilSomethingWasMeasured) {
  RequestDeadline deadline(seconds(0), {}, kStart);
  EXPECT_EQ(deadline.at(), kStart + seconds(300));
  deadline.expect(0);
  EXPECT_EQ(deadline.at(), kStart + seconds(300));
}

TEST(RequestDeadline, IsThreeTimesThePredictionButAtLeastAMinute) {
  RequestDeadline deadline(seconds(0), {}, kStart);
  deadline.expect(2);
  EXPECT_EQ(deadline.at(), kStart + seconds(60));
  deadline.expect(50);
  EXPECT_EQ(deadline.at(), kStart + seconds(150));
  EXPECT_THAT(deadline.error().message, HasSubstr("150 s"));
  deadline.expect(std::numeric_limits<double>::infinity());
  EXPECT_EQ(deadline.at(), kStart + seconds(86400));
}

TEST(RequestDeadline, OfTheServerIsNotPredicted) {
  RequestDeadline deadline(seconds(7), {}, kStart);
  deadline.expect(1000);
  EXPECT_EQ(deadline.at(), kStart + seconds(7));
  EXPECT_EQ(http_status(deadline.error().kind), 504);
  EXPECT_THAT(deadline.error().message, HasSubstr("within 7 s"));
}

TEST(RequestDeadline, AskedForCountsFromTheHead) {
  RequestDeadline deadline(seconds(0), AskedTimeout{milliseconds(2500), kStart - seconds(1)},
                           kStart);
  deadline.expect(1000);
  EXPECT_EQ(deadline.at(), kStart + milliseconds(1500));
  EXPECT_THAT(deadline.error().message, HasSubstr("2.5 s"));
  EXPECT_THAT(deadline.error().message, HasSubstr("X-Request-Timeout-Ms"));
}

TEST(RequestDeadline, AskedForIsBoundedByTheServers) {
  const AskedTimeout longer{seconds(60), kStart};
  EXPECT_EQ(RequestDeadline(seconds(7), longer, kStart).at(), kStart + seconds(7));
  const AskedTimeout shorter{seconds(2), kStart};
  EXPECT_EQ(RequestDeadline(seconds(7), shorter, kStart).at(), kStart + seconds(2));
}

}  // namespace
}  // namespace espalier::server
