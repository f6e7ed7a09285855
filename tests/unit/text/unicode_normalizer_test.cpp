#include "text/unicode_normalizer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "text/utf8.h"

namespace espalier::text {
namespace {

std::string nfc(const UnicodeNormalizer& normalizer, std::string_view text) {
  std::string buffer;
  return std::string(normalizer.normalize(text, buffer));
}

std::string random_text(std::mt19937& random, size_t characters) {
  static constexpr char32_t kCharacters[] = {'a',    'e',    0x00E9, 0x0301, 0x0316, 0x0323, 0x0344,
                                             0x05B0, 0x093C, 0x0F71, 0x0F73, 0x0F81, 0x1100, 0x1161,
                                             0x11A8, 0xAC00, 0x1DFA, 0x3099, 0x304B, 0x10F46};
  std::string text;
  for (size_t i = 0; i < characters; ++i) {
    append_utf8(text, kCharacters[random() % std::size(kCharacters)]);
  }
  return text;
}

TEST(UnicodeNormalizer, ComposesAndReorders) {
  const UnicodeNormalizer normalizer;
  EXPECT_EQ(nfc(normalizer, "e\u0301"), "\u00E9");
  EXPECT_EQ(nfc(normalizer, "a\u0301\u0323"), "\u1EA1\u0301");
  EXPECT_EQ(nfc(normalizer, "\u1112\u1161\u11AB"), "\uD55C");
  EXPECT_EQ(nfc(normalizer, "\u212B"), "\u00C5");
}

TEST(UnicodeNormalizer, MarksYoungerThanUnicode9StayWhereTheyAre) {
  const UnicodeNormalizer normalizer;
  // U+1DFA (Unicode 14) has class 218 and would go before U+0301 (230) in newer tables.
  EXPECT_EQ(nfc(normalizer, "a\u0301\u1DFA"), "\u00E1\u1DFA");
  EXPECT_EQ(nfc(normalizer, "x\u0301\u1DFA"), "x\u0301\u1DFA");
  // U+11938 (Unicode 13) would compose from these two.
  EXPECT_EQ(nfc(normalizer, "\U00011935\U00011930"), "\U00011935\U00011930");
}

TEST(UnicodeNormalizer, NormalizedTextIsGivenBackWithoutACopy) {
  const UnicodeNormalizer normalizer;
  std::string buffer;
  for (const std::string_view text : {"", "plain", "Größe 漢字 😀"}) {
    EXPECT_EQ(normalizer.normalize(text, buffer).data(), text.data());
  }
}

TEST(UnicodeNormalizer, NormalizingTwiceChangesNothing) {
  const UnicodeNormalizer normalizer;
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const std::string once = nfc(normalizer, random_text(random, 1 + random() % 60));
    ASSERT_EQ(nfc(normalizer, once), once);
  }
}

TEST(UnicodeNormalizer, SmallChunksGiveTheSameAsOne) {
  const UnicodeNormalizer whole;
  std::mt19937 random(2);
  for (const size_t chunk_bytes : {40, 47, 64, 101}) {  // "ab" and 8 characters are 34 at most
    const UnicodeNormalizer chunked(chunk_bytes);
    for (int i = 0; i < 300; ++i) {
      std::string text;
      while (text.size() < 1000) text += "ab" + random_text(random, 8);
      ASSERT_EQ(nfc(chunked, text), nfc(whole, text)) << chunk_bytes;
    }
  }
  EXPECT_EQ(nfc(UnicodeNormalizer(3), "ae\u0301"), "a\u00E9") << "cut before the e, not behind it";
}

TEST(UnicodeNormalizer, AChunkWithoutBoundaryIsCutAtACharacter) {
  const UnicodeNormalizer chunked(7);
  std::string marks;
  for (int i = 0; i < 20; ++i) marks += "\u1161";  // a vowel that composes backwards only
  EXPECT_EQ(nfc(chunked, marks), marks);
}

TEST(UnicodeNormalizer, LongRunsOfMarksAreSortedAsShortOnesAre) {
  const UnicodeNormalizer normalizer;
  // One mark more than the limit, in the worst order: the first composes, the others are sorted.
  std::string text = "a", above, below;
  for (int i = 0; i < 40; ++i) {
    text += "\u0301\u0316";
    above += "\u0301";
    below += "\u0316";
  }
  EXPECT_EQ(nfc(normalizer, text), "\u00E1" + below + above.substr(2));
  // U+0344 and U+0F73 are made of marks themselves.
  std::string tibetan = "\u0F40", expected_low, expected_high;
  for (int i = 0; i < 40; ++i) {
    tibetan += "\u0F73";
    expected_low += "\u0F71";
    expected_high += "\u0F72";
  }
  EXPECT_EQ(nfc(normalizer, tibetan), "\u0F40" + expected_low + expected_high);
}

TEST(UnicodeNormalizer, AMegabyteOfUnsortedMarksTakesNoQuadraticTime) {
  const UnicodeNormalizer normalizer;
  std::string marks;
  while (marks.size() < (1u << 20)) marks += "\u0301\u0316";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(nfc(normalizer, marks).size(), marks.size());
  // Milliseconds; minutes if sorted by insertion. The bound leaves room for sanitizers.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

}  // namespace
}  // namespace espalier::text
