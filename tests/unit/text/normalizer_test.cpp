// The steps of a normalizer, and what its text stands for.
#include "text/normalizer.h"

#include <gtest/gtest.h>

#include <utility>

namespace espalier::text {
namespace {

using Step = Normalizer::Step;

template <typename... Steps>
Normalizer normalizer_of(Steps... steps) {
  std::vector<Step> list;
  (list.emplace_back(std::move(steps)), ...);
  return Normalizer(std::move(list));
}

std::string normalized(const Normalizer& normalizer, std::string_view text) {
  std::string buffer, other;
  std::vector<Alignment> alignments;
  const std::string result(normalizer.normalize(text, buffer));
  EXPECT_EQ(normalizer.normalize(text, other, alignments), result) << "with alignments";
  return result;
}

/// The stretch of `text` that bytes [begin, end) of its normalized form stand for.
std::string source(const Normalizer& normalizer, std::string_view text, size_t begin, size_t end) {
  std::string buffer;
  std::vector<Alignment> alignments;
  normalizer.normalize(text, buffer, alignments);
  ByteRange range{begin, end};
  for (auto step = alignments.rbegin(); step != alignments.rend(); ++step) {
    range = step->source_of(range);
  }
  return std::string(text.substr(range.begin, range.end - range.begin));
}

const PrependNormalizer kPrepend{"__"};

TEST(Normalizer, WithoutStepsLeavesTextAsItIs) {
  const std::string_view text = "a b";
  std::string buffer;
  EXPECT_EQ(Normalizer().normalize(text, buffer).data(), text.data());
  EXPECT_EQ(Normalizer().settled_bytes(text), 3u);
  EXPECT_TRUE(Normalizer().goes_on());
}

TEST(Normalizer, PrependsToWhatIsNotEmpty) {
  const Normalizer normalizer = normalizer_of(kPrepend);
  EXPECT_EQ(normalized(normalizer, ""), "");
  EXPECT_EQ(normalized(normalizer, "a"), "__a");
  EXPECT_EQ(normalized(normalizer_of(PrependNormalizer{""}), "a"), "a");
  EXPECT_FALSE(normalizer.goes_on()) << "it would come twice";
}

TEST(Normalizer, ReplacesFromTheLeft) {
  EXPECT_EQ(normalized(normalizer_of(ReplaceNormalizer{"aa", "b"}), "aaaxa"), "baxa");
  EXPECT_EQ(normalized(normalizer_of(ReplaceNormalizer{"a", "aa"}), "aba"), "aabaa");
  EXPECT_EQ(normalized(normalizer_of(ReplaceNormalizer{" ", "\u2581"}), " a "), "\u2581a\u2581");
  EXPECT_EQ(normalized(normalizer_of(ReplaceNormalizer{"x", "y"}), ""), "");
}

TEST(Normalizer, TakesItsStepsInTurn) {
  EXPECT_EQ(normalized(normalizer_of(PrependNormalizer{" "}, ReplaceNormalizer{" ", "_"}), "a b"),
            "_a_b");
  EXPECT_EQ(normalized(normalizer_of(ReplaceNormalizer{" ", "_"}, PrependNormalizer{" "}), "a b"),
            " a_b");
  EXPECT_EQ(
      normalized(normalizer_of(UnicodeNormalizer(), ReplaceNormalizer{"\u00E9", "e"}), "e\u0301"),
      "e");
  EXPECT_EQ(
      normalized(normalizer_of(ReplaceNormalizer{"\u00E9", "e"}, UnicodeNormalizer()), "e\u0301"),
      "\u00E9");
}

TEST(Normalizer, WhatIsPutInFrontBelongsToTheFirstCharacter) {
  const Normalizer normalizer = normalizer_of(kPrepend, ReplaceNormalizer{"_", "--"});
  EXPECT_EQ(normalized(normalizer, "\u4E2Db"), "----\u4E2Db");
  EXPECT_EQ(source(normalizer, "\u4E2Db", 0, 1), "\u4E2D");
  EXPECT_EQ(source(normalizer, "\u4E2Db", 0, 7), "\u4E2D");
  EXPECT_EQ(source(normalizer, "\u4E2Db", 7, 8), "b");
}

TEST(Normalizer, WhatReplacesATextStandsForIt) {
  const Normalizer normalizer =
      normalizer_of(UnicodeNormalizer(), ReplaceNormalizer{"\u00E9x", "123"});
  EXPECT_EQ(source(normalizer, "ae\u0301xb", 0, 1), "a");
  EXPECT_EQ(source(normalizer, "ae\u0301xb", 2, 3), "e\u0301x");
  EXPECT_EQ(source(normalizer, "ae\u0301xb", 4, 5), "b");
}

TEST(Normalizer, IsSettledWhereNothingThatFollowsChangesIt) {
  const ReplaceNormalizer spaces{" ", "_"};
  EXPECT_EQ(normalizer_of(kPrepend, spaces).settled_bytes("a b"), 3u);
  EXPECT_EQ(normalizer_of(UnicodeNormalizer(), spaces).settled_bytes("a e"), 2u)
      << "an accent may follow";
  EXPECT_EQ(normalizer_of(spaces, UnicodeNormalizer()).settled_bytes("a e"), 0u);
  EXPECT_EQ(normalizer_of(ReplaceNormalizer{"ab", "c"}).settled_bytes("xxa"), 0u);
  EXPECT_TRUE(normalizer_of(UnicodeNormalizer()).goes_on());
  EXPECT_FALSE(normalizer_of(spaces).goes_on());
}

}  // namespace
}  // namespace espalier::text
