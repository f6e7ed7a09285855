#include "text/split_pattern.h"

#include <gmock/gmock.h>

#include <random>
#include <stdexcept>

#include "text/utf8.h"

namespace espalier::text {
namespace {

using testing::ElementsAre;

constexpr std::string_view kQwen =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::vector<std::string> pieces(const SplitPattern& pattern, std::string_view text) {
  std::vector<std::string_view> views;
  pattern.split(text, views);
  return {views.begin(), views.end()};
}

TEST(SplitPattern, QwensPatternCutsWordsDigitsSignsAndSpace) {
  const auto qwen = SplitPattern::regex(kQwen);
  EXPECT_THAT(pieces(qwen, "Hello, it's 12  x!\n\n  y"),
              ElementsAre("Hello", ",", " it", "'s", " ", "1", "2", " ", " x", "!\n\n", " ", " y"));
}

TEST(SplitPattern, IgnoredCaseFoldsBeyondAscii) {
  const auto qwen = SplitPattern::regex(kQwen);
  EXPECT_THAT(pieces(qwen, "a'\u017Fx"), ElementsAre("a", "'\u017F", "x"));  // long s
}

TEST(SplitPattern, TheMongolianVowelSeparatorIsNoWhiteSpace) {
  EXPECT_THAT(pieces(SplitPattern::regex(R"(\s)"), "a\u180Eb\u0085c"),
              ElementsAre("a\u180Eb", "\u0085", "c"));
  EXPECT_THAT(pieces(SplitPattern::regex(R"([^\S]|\S+)"), "\u180E "), ElementsAre("\u180E", " "));
}

TEST(SplitPattern, CategoriesAreThoseOfUnicode16) {
  const auto letters = SplitPattern::regex(R"(\p{L}+)");
  EXPECT_THAT(pieces(letters, "1\u1C891"), ElementsAre("1", "\u1C89", "1"));          // Unicode 16
  EXPECT_THAT(pieces(letters, "1\U0002EBF01"), ElementsAre("1", "\U0002EBF0", "1"));  // 15.1
  EXPECT_THAT(pieces(SplitPattern::regex(R"([^\p{L}\p{N}]+)"), "\U00010D40!\U00010D4A"),
              ElementsAre("\U00010D40", "!", "\U00010D4A"));
  EXPECT_THAT(pieces(SplitPattern::regex(R"(\d|\P{Nd}+)"), "\U00010D40\u1C89"),
              ElementsAre("\U00010D40", "\u1C89"));
}

TEST(SplitPattern, WhatDoesNotMatchIsAPieceToo) {
  EXPECT_THAT(pieces(SplitPattern::regex("b+"), "abbcbd"), ElementsAre("a", "bb", "c", "b", "d"));
  EXPECT_THAT(pieces(SplitPattern::regex("x"), ""), ElementsAre());
}

TEST(SplitPattern, EmptyMatchesCutBetweenCharacters) {
  EXPECT_THAT(pieces(SplitPattern::regex("x*"), "aéxxb"), ElementsAre("a", "é", "xx", "b"));
}

TEST(SplitPattern, ALiteralIsNoPattern) {
  EXPECT_THAT(pieces(SplitPattern::literal("a.[b"), "a.[baxb"), ElementsAre("a.[b", "axb"));
}

TEST(SplitPattern, TheDotStopsAtLineFeedsOnly) {
  EXPECT_THAT(pieces(SplitPattern::regex(".+"), "a\rb\nc"), ElementsAre("a\rb", "\n", "c"));
}

TEST(SplitPattern, MatchesThatOverflowTheCompiledCodesStackAreStillFound) {
  // A group that repeats needs a stack frame for each repetition.
  const auto pattern = SplitPattern::regex("(?:a|b)+c");
  const std::string run(200'000, 'a');
  EXPECT_THAT(pieces(pattern, run + "cd"), ElementsAre(run + "c", "d"));
}

TEST(SplitPattern, ExceededLimitsKeepTheTextInOnePiece) {
  const auto pattern = SplitPattern::regex("(?:a|aa)+b");
  EXPECT_THAT(pieces(pattern, "aaacaab"), ElementsAre("aaac", "aab"));
  // The same with exponential backtracking before the match: the limit ends it.
  const std::string text = std::string(60, 'a') + "caab";
  EXPECT_THAT(pieces(pattern, text), ElementsAre(text));
}

TEST(SplitPattern, PiecesJoinedAreTheText) {
  const auto qwen = SplitPattern::regex(kQwen);
  std::mt19937 random(11);
  for (int i = 0; i < 500; ++i) {
    std::string text, joined;
    for (size_t count = random() % 50; count-- > 0;) {
      const auto limit = random() % 2 == 0 ? 0x80u : 0x20000u;
      const auto c = static_cast<char32_t>(random() % limit);
      append_utf8(text, c >= 0xD800 && c <= 0xDFFF ? U'x' : c);
    }
    for (const std::string& piece : pieces(qwen, text)) {
      ASSERT_FALSE(piece.empty());
      joined += piece;
    }
    ASSERT_EQ(joined, text);
  }
}

}  // namespace
}  // namespace espalier::text
