#include "text/added_tokens.h"

#include <gtest/gtest.h>

namespace espalier::text {
namespace {

/// Segments as text, added tokens in brackets with their id.
std::string shown(const std::vector<AddedToken>& tokens, std::string_view text) {
  std::string out;
  for (const TextSegment& segment : AddedTokenMatcher(tokens).split(text, TextEnd::kFinal)) {
    const std::string content(segment.text);
    out += segment.added_token ? "[" + std::to_string(*segment.added_token) + content + "]"
                               : "(" + content + ")";
  }
  return out;
}

AddedToken token(std::string content, uint32_t id) {
  AddedToken result;
  result.content = content;
  result.pattern = std::move(content);
  result.id = id;
  return result;
}

TEST(AddedTokens, TheLeftmostThenTheLongestIsTaken) {
  const std::vector<AddedToken> tokens = {token("ab", 1), token("abcd", 2), token("bcdef", 3)};
  EXPECT_EQ(shown(tokens, "xabcdefab"), "(x)[2abcd](ef)[1ab]");
  EXPECT_EQ(shown(tokens, "abcdab"), "[2abcd][1ab]");
  EXPECT_EQ(shown(tokens, "abc"), "[1ab](c)");
  EXPECT_EQ(shown(tokens, "a"), "(a)") << "a token that the end cuts off is text";
  EXPECT_EQ(shown(tokens, ""), "");
  EXPECT_EQ(shown({}, "ab"), "(ab)");
}

TEST(AddedTokens, StrippingSwallowsUnicodesWhiteSpace) {
  AddedToken left = token("<l>", 1), right = token("<r>", 2);
  left.strip_left = true;
  right.strip_right = true;
  EXPECT_EQ(shown({left, right}, "a \u3000\n<l> <r>\t \u00A0b"),
            "(a)[1 \u3000\n<l>]( )[2<r>\t \u00A0](b)");
  EXPECT_EQ(shown({left, right}, " <l>"), "[1 <l>]");
  EXPECT_EQ(shown({left, right}, "<r> <l>"), "[2<r> ][1<l>]") << "the space is taken once";
}

}  // namespace
}  // namespace espalier::text
