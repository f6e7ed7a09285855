// Properties of splitting: the scanner finds what PCRE2 finds, and what either says about a text
// with an open end holds whatever follows.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/property/random_text.h"
#include "text/code_point_table.h"
#include "text/split_pattern.h"

namespace espalier::text {
namespace {

using Pieces = std::vector<std::string_view>;

/// The same pattern, but not one that the scanner knows.
SplitPattern by_pcre2(std::string_view pattern) {
  return SplitPattern::regex("(?:" + std::string(pattern) + ")");
}

Pieces split(const SplitPattern& pattern, std::string_view text) {
  Pieces pieces;
  pattern.split(text, pieces);
  return pieces;
}

class ScannedPattern : public testing::TestWithParam<std::string_view> {};

TEST_P(ScannedPattern, CutsRandomTextAsPcre2Does) {
  const auto scanned = SplitPattern::regex(GetParam()), matched = by_pcre2(GetParam());
  std::mt19937 random(1);
  for (int i = 0; i < 1'000'000; ++i) {
    const std::string text = random_text(random, below(random, 24), false);
    ASSERT_EQ(split(scanned, text), split(matched, text)) << text;
  }
}

TEST_P(ScannedPattern, CutsEveryCharacterAsPcre2Does) {
  const auto scanned = SplitPattern::regex(GetParam()), matched = by_pcre2(GetParam());
  std::string text;
  for (char32_t code_point = 0; code_point < kCodePointCount; ++code_point) {
    if (code_point >= 0xD800 && code_point <= 0xDFFF) continue;
    std::string character;
    append_utf8(character, code_point);
    for (const char* before : {"a", "1", " ", "!", "'"}) text.append(before).append(character);
    text.append(" a").append(character).append(character).append("\n");
    if (text.size() < 4000 && code_point + 1 < kCodePointCount) continue;
    ASSERT_EQ(split(scanned, text), split(matched, text)) << "before " << std::size_t{code_point};
    text.clear();
  }
}

INSTANTIATE_TEST_SUITE_P(, ScannedPattern,
                         testing::Values(WordScanner::kQwenPattern, WordScanner::kLlama3Pattern),
                         [](const auto& param) {
                           return param.param == WordScanner::kQwenPattern ? "Qwen" : "Llama3";
                         });

const auto kPatterns = std::to_array<std::string>(
    {std::string(WordScanner::kQwenPattern), std::string(WordScanner::kLlama3Pattern),
     "(?:" + std::string(WordScanner::kQwenPattern) + ")",
     R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
     R"(\p{N}{1,3})", R"(\p{Lu}\p{Ll}*|\p{P}++|\P{L}\d)", R"((?<=\s)\S(?=.)|(?<!x)a{2,3}|.{4})",
     "x*", R"((?<= )\S+)", "the of|the", R"(\S+(?=\n))", R"([^a]*?a)"});

class AnyPattern : public testing::TestWithParam<std::string> {};

TEST_P(AnyPattern, FindsPiecesOfAnOpenTextThatEveryContinuationHas) {
  const auto pattern = SplitPattern::regex(GetParam());
  std::mt19937 random(2);
  for (int i = 0; i < 100'000; ++i) {
    const std::string begin = random_text(random, below(random, 12), false);
    const std::string whole = begin + random_text(random, below(random, 4), false);
    Pieces known;
    const size_t end =
        pattern.split_from(begin, 0, TextEnd::kOpen, SplitPattern::kAllPieces, known);
    Pieces all = split(pattern, whole);
    ASSERT_LE(known.size(), all.size()) << begin << " | " << whole;
    if (pattern.starts_afresh()) {
      Pieces joined = known;
      const std::string_view rest = std::string_view(whole).substr(end);
      pattern.split(rest, joined);
      ASSERT_EQ(joined, all) << begin << " | " << whole;
    }
    all.resize(known.size());
    ASSERT_EQ(known, all) << begin << " | " << whole;
  }
}

TEST_P(AnyPattern, FindsTheSamePiecesFewAtATime) {
  const auto pattern = SplitPattern::regex(GetParam());
  std::mt19937 random(3);
  for (int i = 0; i < 30'000; ++i) {
    const std::string text = random_text(random, below(random, 24), false);
    Pieces pieces;
    for (size_t from = 0; from < text.size();) {
      const size_t next =
          pattern.split_from(text, from, TextEnd::kFinal, 1 + below(random, 3), pieces);
      ASSERT_GT(next, from) << text;
      from = next;
    }
    ASSERT_EQ(pieces, split(pattern, text)) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(, AnyPattern, testing::ValuesIn(kPatterns));

}  // namespace
}  // namespace espalier::text
