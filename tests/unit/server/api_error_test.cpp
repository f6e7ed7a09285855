#include "server/api_error.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "server/error_response.h"

namespace espalier::server {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::Pair;

ApiError error_of(ErrorKind kind) {
  ApiError error;
  error.kind = kind;
  error.message = "what and why";
  return error;
}

TEST(ApiError, EveryKindHasTheStatusOfTheApi) {
  EXPECT_EQ(http_status(ErrorKind::kInvalidRequest), 400);
  EXPECT_EQ(http_status(ErrorKind::kNotFound), 404);
  EXPECT_EQ(http_status(ErrorKind::kModelNotFound), 404);
  EXPECT_EQ(http_status(ErrorKind::kMethodNotAllowed), 405);
  EXPECT_EQ(http_status(ErrorKind::kPayloadTooLarge), 413);
  EXPECT_EQ(http_status(ErrorKind::kUnsupportedMediaType), 415);
  EXPECT_EQ(http_status(ErrorKind::kOverloaded), 429);
  EXPECT_EQ(http_status(ErrorKind::kInternal), 500);
  EXPECT_EQ(http_status(ErrorKind::kShuttingDown), 503);
  EXPECT_EQ(http_status(ErrorKind::kDeadlineExceeded), 504);
  EXPECT_EQ(http_status(ErrorKind::kUnauthorized), 401);
  EXPECT_EQ(http_status(ErrorKind::kHeaderTooLarge), 431);
  EXPECT_EQ(http_status(ErrorKind::kClientGone), 499);
}

TEST(ApiError, BodyHasOpenAisFieldsCoheresMessageAndLangChainsDetail) {
  ApiError error = error_of(ErrorKind::kInvalidRequest);
  error.param = "input[3]";
  error.code = "context_length_exceeded";
  const json body = json::parse(error_body(error));
  EXPECT_EQ(body["error"]["message"], "what and why");
  EXPECT_EQ(body["error"]["type"], "invalid_request_error");
  EXPECT_EQ(body["error"]["param"], "input[3]");
  EXPECT_EQ(body["error"]["code"], "context_length_exceeded");
  EXPECT_EQ(body["detail"], "what and why");
  EXPECT_EQ(body["message"], "what and why");
}

TEST(ApiError, EmptyParamAndCodeAreNull) {
  const json body = json::parse(error_body(error_of(ErrorKind::kInternal)));
  EXPECT_TRUE(body["error"]["param"].is_null());
  EXPECT_TRUE(body["error"]["code"].is_null());
}

TEST(ApiError, MessageThatIsNotUtf8StillGivesJson) {
  ApiError error = error_of(ErrorKind::kInvalidRequest);
  error.message = "cut inside a character: \xc3";
  EXPECT_TRUE(json::accept(error_body(error)));
}

TEST(ApiError, SchedulersFailuresKeepTheirMessageAndDelay) {
  using scheduler::FailureKind;
  const auto kind_of = [](FailureKind kind) { return from_failure({kind, "why", {}}).kind; };
  EXPECT_EQ(kind_of(FailureKind::kNeverFits), ErrorKind::kInvalidRequest);
  EXPECT_EQ(kind_of(FailureKind::kQueueFull), ErrorKind::kOverloaded);
  EXPECT_EQ(kind_of(FailureKind::kShuttingDown), ErrorKind::kShuttingDown);
  EXPECT_EQ(kind_of(FailureKind::kDeadline), ErrorKind::kDeadlineExceeded);
  EXPECT_EQ(kind_of(FailureKind::kCancelled), ErrorKind::kClientGone);
  EXPECT_EQ(kind_of(FailureKind::kCompute), ErrorKind::kInternal);
  const auto error = from_failure({FailureKind::kQueueFull, "full", std::chrono::seconds(7)});
  EXPECT_EQ(error.message, "full");
  EXPECT_EQ(error.retry_after, std::chrono::seconds(7));
}

TEST(ErrorResponse, OverloadAndShutdownSayWhenToRetry) {
  ApiError busy = error_of(ErrorKind::kOverloaded);
  busy.retry_after = std::chrono::seconds(3);
  EXPECT_THAT(error_response(busy).headers, Contains(Pair("Retry-After", "3")));
  EXPECT_THAT(error_response(error_of(ErrorKind::kShuttingDown)).headers,
              Contains(Pair("Retry-After", "1")));
  EXPECT_TRUE(error_response(error_of(ErrorKind::kInvalidRequest)).headers.empty());
}

}  // namespace
}  // namespace espalier::server
