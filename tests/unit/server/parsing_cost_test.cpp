#include "server/api/parsing_cost.h"

#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "server/api/json_request.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace espalier::server {
namespace {

constexpr std::array<std::string_view, 2> kMembers{"input", "text"};

/// `count` times `entry` in a list.
std::string listed(const std::string& entry, size_t count) {
  std::string body = R"({"input":[)" + entry;
  for (size_t i = 1; i < count; ++i) body += "," + entry;
  return body + "]}";
}

std::string repeated(const std::string& text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
size_t bytes_allocated() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST(ParsingCost, IsNoLessThanTheParsedTree) {
  for (const std::string& entry :
       {std::string("1"), std::string("[]"), std::string("[1]"), std::string("[1,2,3,4,5]"),
        std::string("[[[[[[]]]]]]"), std::string(R"("")"), std::string(R"("a")"),
        std::string(R"("longer than fifteen bytes")"), std::string("{}"),
        std::string(R"({"text":"a"})"), std::string(R"({"text":{"text":{"text":1}}})"),
        std::string(R"({"input":1,"text":[2]})"), std::string(R"("\u0001\"\\")")}) {
    const std::string body = listed(entry, 100'000);
    const size_t before = bytes_allocated();
    const auto tree = parse_json_object(body, kMembers);
    ASSERT_TRUE(tree);
    const size_t taken = bytes_allocated() - before;
    const size_t told = parsing_cost(body, 2).parsing;
    EXPECT_GE(told, taken) << entry;
    // Nor many times as much, or requests would be turned away for nothing.
    EXPECT_LE(told, 5 * taken) << entry;
  }
}
#endif

TEST(ParsingCost, OfOrdinaryTextIsAFewTimesItsBytes) {
  const std::string text =
      repeated("In a string, commas [and] {brackets}: cost \\\"nothing\\\". ", 2000);
  const std::string body = listed('"' + text + '"', 10);
  const auto cost = parsing_cost(body, 2);
  EXPECT_LT(cost.parsing, 3 * body.size());
  EXPECT_LT(cost.inputs, 2 * body.size());
  EXPECT_LT(cost.request, 12 * body.size());  // its tokens are 8 bytes for each of its bytes
  EXPECT_GE(cost.request, body.size());
}

TEST(ParsingCost, CountsTheTokensOfAsManyTextsAsAreTokenizedAtOnce) {
  const std::string text(4'000'000, 'a');
  const std::string body = listed('"' + text + '"', 4);
  const size_t one = parsing_cost(body, 1).request;
  EXPECT_GE(one, body.size() + 10 * text.size());
  EXPECT_EQ(parsing_cost(body, 2).request, one + 10 * (text.size() + 1));
  EXPECT_EQ(parsing_cost(body, 64).request, parsing_cost(body, 5).request);  // there are no more
}

TEST(ParsingCost, KnowsWhereStringsEnd) {
  const auto cost = [](const std::string& text) {
    return parsing_cost("[\"" + text + "\",[],[]]", 1).parsing;
  };
  // Were it to end elsewhere, there would be more lists, or fewer.
  for (const std::string text : {"", "[[", R"(\"[)", R"(\\)", R"([\\\"[)", R"(\"\"\\)", R"(a\\)"})
    EXPECT_EQ(cost(text), cost(std::string(text.size(), 'a'))) << text;
}

TEST(ParsingCost, IsBoundedWhereTheParserStops) {
  const auto most = parsing_cost(listed("1", kJsonValuesMax), 2).parsing;
  EXPECT_LE(parsing_cost(listed("1", 2 * kJsonValuesMax), 2).parsing, most + 100);
}

TEST(ParsingCost, OfWhatIsNoJsonIsSomething) {
  for (const char* const body : {"", "\"", "\"\\", "[[[", "{\"a", "\\", "\"\\\"", "]]}}"}) {
    const auto cost = parsing_cost(body, 2);
    EXPECT_GT(cost.parsing, 0U) << body;
    EXPECT_LT(cost.parsing, 2000U) << body;
  }
}

}  // namespace
}  // namespace espalier::server
