#include "text/alignment.h"

#include <gtest/gtest.h>

#include "text/unicode_normalizer.h"

namespace espalier::text {
namespace {

TEST(Alignment, WhatIsTheSameIsFoundByPosition) {
  Alignment alignment;
  alignment.append_same(2);
  alignment.append_same(3);
  EXPECT_EQ(alignment.source_of({1, 4}), (ByteRange{1, 4}));
}

TEST(Alignment, WhatChangedStandsForItsSourceAsAWhole) {
  Alignment alignment;
  alignment.append_same(2);
  alignment.append_changed(3, 1);
  alignment.append_same(1);
  EXPECT_EQ(alignment.source_of({2, 5}), (ByteRange{2, 3}));
  EXPECT_EQ(alignment.source_of({4, 5}), (ByteRange{2, 3}));
  EXPECT_EQ(alignment.source_of({1, 5}), (ByteRange{1, 3}));
  EXPECT_EQ(alignment.source_of({5, 6}), (ByteRange{3, 4}));
}

TEST(Alignment, CharactersAreMatchedUpInOrder) {
  Alignment alignment;
  alignment.append_same(1);
  alignment.append_matched("abcdefg", "axyg");
  EXPECT_EQ(alignment.source_of({1, 2}), (ByteRange{1, 2}));
  EXPECT_EQ(alignment.source_of({2, 3}), (ByteRange{2, 5}));  // half of five characters
  EXPECT_EQ(alignment.source_of({3, 4}), (ByteRange{4, 7}));
  EXPECT_EQ(alignment.source_of({4, 5}), (ByteRange{7, 8}));
}

TEST(Alignment, WhatIsLeftOutOrPutInSharesItsNeighbours) {
  Alignment alignment;
  alignment.append_matched("aba", "aa");
  EXPECT_EQ(alignment.source_of({0, 1}), (ByteRange{0, 2}));
  EXPECT_EQ(alignment.source_of({1, 2}), (ByteRange{1, 3}));
  alignment.append_matched("c", "cd");
  EXPECT_EQ(alignment.source_of({3, 4}), (ByteRange{3, 4}));
}

TEST(Alignment, WholeCharactersAreTheSmallestAroundARange) {
  const std::string_view text = "a\u4E2D\U0001F600";
  EXPECT_EQ(whole_characters(text, {2, 3}), (ByteRange{1, 4}));
  EXPECT_EQ(whole_characters(text, {1, 4}), (ByteRange{1, 4}));
  EXPECT_EQ(whole_characters(text, {3, 5}), (ByteRange{1, 8}));
  EXPECT_EQ(whole_characters(text, {0, 1}), (ByteRange{0, 1}));
}

/// The sources of the characters of NFC(text).
std::vector<std::string> sources(std::string_view text) {
  static const UnicodeNormalizer normalizer;
  std::string buffer;
  Alignment alignment;
  const std::string_view normalized = normalizer.normalize(text, buffer, alignment);
  std::vector<std::string> result;
  for (ByteRange at{}; at.begin < normalized.size(); at.begin = at.end) {
    at.end = whole_characters(normalized, {at.begin, at.begin + 1}).end;
    const auto [begin, end] = alignment.source_of(at);
    result.emplace_back(text.substr(begin, end - begin));
  }
  return result;
}

using Strings = std::vector<std::string>;

TEST(NormalizerAlignment, AComposedCharacterComesFromItsParts) {
  EXPECT_EQ(sources("xe\u0301y"), (Strings{"x", "e\u0301", "y"}));
  EXPECT_EQ(sources("\u1112\u1161\u11AB\uD55C"), (Strings{"\u1112\u1161\u11AB", "\uD55C"}));
  EXPECT_EQ(sources("\u00E9e\u0301\u0301z"), (Strings{"\u00E9", "e\u0301", "\u0301", "z"}));
  EXPECT_EQ(sources("\u212B\u304B\u3099"), (Strings{"\u212B", "\u304B\u3099"}));
}

TEST(NormalizerAlignment, TheCharactersOfADecompositionShareTheirSource) {
  EXPECT_EQ(sources("a\u0958b"), (Strings{"a", "\u0958", "\u0958", "b"}));
}

TEST(NormalizerAlignment, MovedMarksAreMatchedUpInOrder) {
  EXPECT_EQ(sources("q\u0307\u0323y"), (Strings{"q", "\u0307", "\u0323", "y"}));
  EXPECT_EQ(sources("a\u0316\u0301"), (Strings{"a\u0316", "\u0316\u0301"}));
}

}  // namespace
}  // namespace espalier::text
