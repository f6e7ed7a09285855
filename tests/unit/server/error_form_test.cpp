#include "server/api/error_form.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace espalier::server {
namespace {

using nlohmann::json;

ApiError error_of(ErrorKind kind, const std::string& code = {}) {
  return {kind, "what is wrong", "input[3]", code, std::chrono::seconds(7)};
}

TEST(TeiErrors, HaveItsStatusesAndWords) {
  struct Row {
    ApiError error;
    int status;
    const char* type;
  };
  const Row rows[] = {
      {error_of(ErrorKind::kInvalidRequest), 422, "Validation"},
      {error_of(ErrorKind::kInvalidRequest, "invalid_json"), 422, "Validation"},
      {error_of(ErrorKind::kInvalidRequest, "empty_input"), 400, "Empty"},
      {error_of(ErrorKind::kInvalidRequest, "context_length_exceeded"), 413, "Validation"},
      {error_of(ErrorKind::kInvalidRequest, "too_many_inputs"), 413, "Validation"},
      {error_of(ErrorKind::kInvalidRequest, kTooLargeCode), 413, "Validation"},
      {error_of(ErrorKind::kPayloadTooLarge), 413, "Validation"},
      {error_of(ErrorKind::kUnsupportedMediaType), 415, "Validation"},
      {error_of(ErrorKind::kUnauthorized), 401, "Unauthorized"},
      {error_of(ErrorKind::kForbidden), 403, "Validation"},
      {error_of(ErrorKind::kOverloaded), 429, "Overloaded"},
      {error_of(ErrorKind::kInternal), 424, "Backend"},
      {error_of(ErrorKind::kShuttingDown), 503, "Unhealthy"},
      {error_of(ErrorKind::kDeadlineExceeded), 504, "Timeout"},
      {error_of(ErrorKind::kClientGone), 499, "Validation"},
  };
  for (const Row& row : rows) {
    const auto response = error_response(row.error, ErrorForm::kTei);
    EXPECT_EQ(response.status, row.status);
    EXPECT_EQ(response.content_type, "application/json");
    EXPECT_EQ(json::parse(response.body),
              json({{"error", "what is wrong"}, {"error_type", row.type}}));
  }
}

TEST(TeiErrors, KeepTheHeadersThatTellWhatToDo) {
  EXPECT_THAT(error_response(error_of(ErrorKind::kOverloaded), ErrorForm::kTei).headers,
              testing::Contains(testing::Pair("Retry-After", "7")));
  EXPECT_THAT(error_response(error_of(ErrorKind::kUnauthorized), ErrorForm::kTei).headers,
              testing::Contains(testing::Pair("WWW-Authenticate", "Bearer")));
}

TEST(OpenAiErrors, AreThoseOfTheTable) {
  const auto response =
      error_response(error_of(ErrorKind::kInvalidRequest, "empty_input"), ErrorForm::kOpenAi);
  EXPECT_EQ(response.status, 400);
  const json error = json::parse(response.body)["error"];
  EXPECT_EQ(error["param"], "input[3]");
  EXPECT_EQ(error["code"], "empty_input");
}

TEST(ErrorForms, AreJsonWhateverTheMessageQuotes) {
  ApiError error = error_of(ErrorKind::kInvalidRequest);
  error.message = "cut in a character: \xE4\xBB, \x01 and \"quotes\"";
  for (const auto form : {ErrorForm::kOpenAi, ErrorForm::kTei})
    EXPECT_TRUE(json::accept(error_response(error, form).body));
}

}  // namespace
}  // namespace espalier::server
