// The chain of decoders, as Hugging Face's library applies them.
#include "text/decoder.h"

#include <gtest/gtest.h>

namespace espalier::text {
namespace {

const Decoder kLlama({ReplaceDecoder{"\u2581", " "}, ByteFallbackDecoder{}, FuseDecoder{},
                      StripDecoder{" ", 1, 0}});

TEST(Decoder, WithoutStepsJoinsWithSpaces) {
  EXPECT_EQ(Decoder().decode({"a", "b"}), "a b");
  EXPECT_EQ(Decoder().decode({}), "");
  EXPECT_EQ(Decoder({FuseDecoder{}}).decode({"a", "b"}), "ab");
}

TEST(Decoder, OfLlamaGivesTheTextBack) {
  EXPECT_EQ(kLlama.decode({"\u2581a", "\u2581\u2581", "b", "<0x0A>"}), "a  b\n");
  EXPECT_EQ(kLlama.decode({"\u2581\u2581a"}), " a") << "one space is stripped";
  EXPECT_EQ(kLlama.decode({}), "");
}

TEST(Decoder, BytesInARowAreReadTogether) {
  EXPECT_EQ(kLlama.decode({"<0xE4>", "<0xB8>", "<0xAD>"}), "\u4E2D");
  EXPECT_EQ(kLlama.decode({"<0xE4>", "<0xB8>", "a", "<0xAD>"}), "\uFFFD\uFFFDa\uFFFD");
  EXPECT_EQ(kLlama.decode({"<0x41>", "<0xFF>"}), "\uFFFD\uFFFD")
      << "each of them, as in the library";
}

TEST(Decoder, OnlyTwoDigitsAreAByte) {
  for (const char* entry :
       {"<0x4>", "<0x411>", "<0xG1>", "0x0041", "<0x-1>", "<0x4 >", "<0x\u00E9>"}) {
    EXPECT_EQ(Decoder({ByteFallbackDecoder{}}).decode({entry}), entry);
  }
  EXPECT_EQ(Decoder({ByteFallbackDecoder{}}).decode({"<0x4a>", "<0x+A>"}), "J\n");
}

TEST(Decoder, StripsEachPieceAtBothEnds) {
  const Decoder decoder({StripDecoder{"_", 2, 1}});
  EXPECT_EQ(decoder.decode({"___a___", "_b"}), "_a__b");
  EXPECT_EQ(decoder.decode({"_", "", "__"}), "") << "no more than there is";
}

TEST(Decoder, MetaspaceDropsTheMarksOfTheFirstPiece) {
  EXPECT_EQ(Decoder({MetaspaceDecoder{"_", true}}).decode({"_a_", "_b"}), "a b");
  EXPECT_EQ(Decoder({MetaspaceDecoder{"_", false}}).decode({"_a", "_b"}), " a b");
}

TEST(Decoder, EntriesStandForTheirBytesAmidOthers) {
  EXPECT_EQ(kLlama.entry_bytes("\u2581a"), " a");
  EXPECT_EQ(kLlama.entry_bytes("<0xE4>"), "\xE4");
  EXPECT_EQ(Decoder({MetaspaceDecoder{"_", true}}).entry_bytes("_a"), " a");
  EXPECT_EQ(Decoder().entry_bytes("<0xE4>"), "<0xE4>");
}

}  // namespace
}  // namespace espalier::text
