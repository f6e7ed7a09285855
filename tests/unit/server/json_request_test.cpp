#include "server/api/json_request.h"

#include <gmock/gmock.h>

#include <array>
#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>

namespace espalier::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr std::array<std::string_view, 3> kMembers{"input", "text", "n"};

Result<json> parse(std::string_view body) { return parse_json_object(body, kMembers); }

std::string error_of(std::string_view body) {
  const auto result = parse(body);
  if (result) return "no error: " + result->dump();
  EXPECT_EQ(result.error().kind, ErrorKind::kInvalidRequest);
  return result.error().message;
}

std::string repeat(const std::string& text, size_t times) {
  std::string all;
  all.reserve(text.size() * times);
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

TEST(JsonRequest, KeepsAskedForMembersAndIgnoresTheRest) {
  const auto result =
      parse(R"({"x":{"input":[1,{"y":2}]},"input":[{"text":"a","z":[[]]},"b"],"n":null,"":3})");
  ASSERT_TRUE(result);
  EXPECT_EQ(*result, json::parse(R"({"input":[{"text":"a"},"b"],"n":null})"));
}

TEST(JsonRequest, LastOfEqualMembersCounts) {
  const auto result = parse(R"({"input":{"text":"a"},"n":1,"input":"last"})");
  ASSERT_TRUE(result);
  EXPECT_EQ((*result)["input"], "last");
}

TEST(JsonRequest, EmptyBodyIsNamed) { EXPECT_THAT(error_of(""), HasSubstr("body is empty")); }

TEST(JsonRequest, SyntaxErrorsSayLineAndColumn) {
  EXPECT_THAT(error_of("{\n  \"input\": oops}"), HasSubstr("line 2, column 12"));
  EXPECT_THAT(error_of("{\"input\":\"a\"} x"), HasSubstr("line 1, column 15"));
  EXPECT_THAT(error_of("{\"input\":"), HasSubstr("unexpected end of input"));
}

TEST(JsonRequest, NulByteIsNoEnd) {
  using std::string_view_literals::operator""sv;
  EXPECT_THAT(error_of("{}\0"sv), HasSubstr("line 1, column 3: there is a NUL byte"));
  EXPECT_THAT(error_of("{\n}\0{"sv), HasSubstr("line 2, column 2: there is a NUL byte"));
  EXPECT_THAT(error_of("\0"sv), HasSubstr("line 1, column 1"));
}

TEST(JsonRequest, OnlyObjectsAreRequests) {
  EXPECT_THAT(error_of("[]"), HasSubstr("must be a JSON object, not an empty array"));
  EXPECT_THAT(error_of("null"), HasSubstr("not null"));
  EXPECT_THAT(error_of("\"text\""), HasSubstr("not a string"));
}

TEST(JsonRequest, NanAndInfinityAreNotJson) {
  EXPECT_THAT(error_of(R"({"n":NaN})"), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of(R"({"n":-Infinity})"), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of(R"({"n":1e400})"), HasSubstr("not valid JSON"));
}

TEST(JsonRequest, InvalidUtf8AndLoneSurrogatesAreRefused) {
  EXPECT_THAT(error_of("{\"input\":\"\xff\"}"), HasSubstr("UTF-8"));
  EXPECT_THAT(error_of("{\"input\":\"\xc3\"}"), HasSubstr("UTF-8"));
  EXPECT_THAT(error_of(R"({"input":"\ud800"})"), HasSubstr("surrogate"));
  EXPECT_THAT(error_of(R"({"input":"\udc00"})"), HasSubstr("surrogate"));
  EXPECT_TRUE(parse(R"({"input":"\ud83d\ude00"})"));
}

TEST(JsonRequest, DepthIsBoundedAlsoInIgnoredMembers) {
  for (const size_t depth : {size_t{33}, size_t{10'000}, size_t{10'000'000}}) {
    EXPECT_THAT(error_of(R"({"input":)" + std::string(depth, '[')), HasSubstr("nested deeper"));
    EXPECT_THAT(error_of(R"({"ignored":)" + std::string(depth, '[')), HasSubstr("nested deeper"));
  }
  EXPECT_THAT(error_of(repeat(R"({"ignored":)", 10'000)), HasSubstr("nested deeper"));
  EXPECT_TRUE(parse(R"({"x":)" + std::string(31, '[') + std::string(31, ']') + "}"));
}

TEST(JsonRequest, NumberOfKeptValuesIsBounded) {
  EXPECT_THAT(error_of(R"({"input":[0)" + repeat(",0", kJsonValuesMax) + "]}"),
              HasSubstr("more than 2097152 values"));
  EXPECT_TRUE(parse(R"({"ignored":[0)" + repeat(",0", kJsonValuesMax) + "]}"));
}

TEST(JsonRequest, MessagesQuoteLittleOfLongTokens) {
  EXPECT_LT(error_of(R"({"input":")" + std::string(1'000'000, 'a')).size(), 400U);
  EXPECT_LT(error_of(R"({"input":")" + std::string(1'000'000, 'a') + "\n").size(), 400U);
}

TEST(JsonRequest, HugeNumbersAreReadInLinearTime) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(error_of(R"({"n":)" + std::string(8'000'000, '1') + "}"), HasSubstr("JSON"));
  const auto fraction = parse(R"({"n":0.)" + std::string(8'000'000, '1') + "}");
  EXPECT_TRUE(fraction);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(JsonRequest, WholeNumbersMayBeWrittenAsFloats) {
  EXPECT_EQ(whole_number(json(256), 1000), 256U);
  EXPECT_EQ(whole_number(json(256.0), 1000), 256U);
  EXPECT_EQ(whole_number(json::parse("1e2"), 1000), 100U);
  EXPECT_EQ(whole_number(json(0), 1000), 0U);
  EXPECT_EQ(whole_number(json(1000), 1000), 1000U);
}

TEST(JsonRequest, OtherNumbersAreNotWhole) {
  for (const char* text : {"-1", "-0.5", "1.5", "1001", "1001.0", "1e300", "18446744073709551616",
                           "\"1\"", "null", "true", "[1]"}) {
    EXPECT_EQ(whole_number(json::parse(text), 1000), std::nullopt) << text;
  }
}

TEST(JsonRequest, OptionalFieldsMayBeAbsentOrNull) {
  const json object = json::parse(R"({"a":null})");
  for (const char* field : {"a", "b"}) {
    EXPECT_EQ(optional_string(object, field).value(), std::nullopt);
    EXPECT_EQ(optional_bool(object, field).value(), std::nullopt);
    EXPECT_EQ(optional_whole_number(object, field, 0).value(), std::nullopt);
  }
}

TEST(JsonRequest, WrongTypesNameFieldExpectationAndValue) {
  const json object = json::parse(R"({"s":3,"b":"yes","n":-1})");
  const auto text = optional_string(object, "s");
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().param, "s");
  EXPECT_EQ(text.error().message, "`s` must be a string, not 3");
  EXPECT_EQ(optional_bool(object, "b").error().message, "`b` must be true or false, not a string");
  EXPECT_EQ(optional_whole_number(object, "n", 1).error().message,
            "`n` must be a whole number, 1 or more, not -1");
}

TEST(JsonRequest, FloatsArePrintedAsShortAsTheyReadBack) {
  const auto printed = [](float value) {
    std::string out;
    EXPECT_TRUE(append_json_float(value, out));
    return out;
  };
  EXPECT_EQ(printed(0.1F), "0.1");
  EXPECT_EQ(printed(-0.0F), "-0");
  EXPECT_EQ(printed(1.0F), "1");
  for (const float value : {1.0F / 3, -1e-42F, std::numeric_limits<float>::max()})
    EXPECT_EQ(json::parse(printed(value)).get<float>(), value);
}

TEST(JsonRequest, NonFiniteFloatsAreNotPrinted) {
  std::string out;
  EXPECT_FALSE(append_json_float(std::numeric_limits<float>::quiet_NaN(), out));
  EXPECT_FALSE(append_json_float(std::numeric_limits<float>::infinity(), out));
  EXPECT_EQ(out, "");
}

}  // namespace
}  // namespace espalier::server
