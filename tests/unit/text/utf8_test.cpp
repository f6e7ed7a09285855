#include "text/utf8.h"

#include <gtest/gtest.h>

namespace espalier::text {
namespace {

TEST(Utf8, EveryScalarValueComesBackFromItsBytes) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string bytes;
    append_utf8(bytes, c);
    const DecodedCharacter decoded = decode_utf8(bytes, 0);
    ASSERT_TRUE(decoded.valid) << std::hex << static_cast<uint32_t>(c);
    ASSERT_EQ(decoded.code_point, c);
    ASSERT_EQ(decoded.length, bytes.size());
  }
}

TEST(Utf8, SurrogatesOverlongFormsAndTooLargeValuesAreInvalid) {
  for (const std::string_view text :
       {"\xED\xA0\x80", "\xED\xBF\xBF", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\x80", "\xE1\x80", "abcdefgh\xC3"}) {
    EXPECT_FALSE(is_valid_utf8(text));
  }
}

TEST(Utf8, IllFormedSequencesAreReplacedByMaximalSubparts) {
  // Unicode 15, tables 3-8 to 3-11.
  EXPECT_EQ(replace_invalid_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), "��������A");
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), "��������A");
  EXPECT_EQ(replace_invalid_utf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), "�����A��B");
  EXPECT_EQ(replace_invalid_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), "����A");
}

TEST(Utf8, ValidTextAroundIllFormedSequencesStays) {
  EXPECT_EQ(replace_invalid_utf8("a\xFFz\xFF"), "a�z�");
  EXPECT_EQ(replace_invalid_utf8("aé\xFF"), "aé�");
  EXPECT_EQ(replace_invalid_utf8("aé漢😀"), "aé漢😀");
}

}  // namespace
}  // namespace espalier::text
