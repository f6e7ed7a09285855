#include "text/pattern_translation.h"

#include <gmock/gmock.h>

#include <stdexcept>

namespace espalier::text {
namespace {

using testing::HasSubstr;

struct Refusal {
  const char* pattern;
  const char* reason;
};

class RefusedPattern : public testing::TestWithParam<Refusal> {};

TEST_P(RefusedPattern, IsRefusedWithTheReason) {
  try {
    translate_oniguruma_pattern(GetParam().pattern);
    FAIL() << GetParam().pattern << " was let through";
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr(GetParam().reason));
    EXPECT_THAT(error.what(), HasSubstr("at byte "));
  }
}

INSTANTIATE_TEST_SUITE_P(
    , RefusedPattern,
    testing::Values(
        Refusal{"^a", "anchors"}, Refusal{"a$", "anchors"}, Refusal{R"(\ba)", R"(\b)"},
        Refusal{R"(\w+)", R"(\w)"}, Refusal{R"(\v)", R"(\v)"}, Refusal{R"(\h)", R"(\h)"},
        Refusal{R"((a)\1)", R"(\1)"}, Refusal{R"(\x41)", R"(\x)"}, Refusal{R"(\x{})", R"(\x{)"},
        Refusal{R"(\x{1234567})", R"(\x{)"}, Refusal{R"(\x{41)", R"(\x{)"},
        Refusal{R"(\p{Han})", "Han"}, Refusal{R"(\p{Mn})", "Mn"}, Refusal{R"(\pL)", R"(\p{)"},
        Refusal{R"(\p{L)", R"(\p{)"}, Refusal{R"([\P{L}])", R"(\P)"}, Refusal{R"([\D])", R"(\D)"},
        Refusal{"[a[b]]", "nested"}, Refusal{"[a&&b]", "&&"}, Refusal{"[]a]", "empty"},
        Refusal{"[", "ends too early"}, Refusal{"[a-", "ends too early"},
        Refusal{R"([\s-z])", "range"}, Refusal{R"([a-\s])", "range"}, Refusal{"[a-c-e]", "range"},
        Refusal{"(", "not closed"}, Refusal{")", "not opened"}, Refusal{"(?i)a", "kind of group"},
        Refusal{"(?<name>a)", "kind of group"}, Refusal{"(?#note)", "kind of group"},
        Refusal{"(*VERB)", "nothing that this could repeat"}, Refusal{"*a", "nothing"},
        Refusal{"a**", "nothing"}, Refusal{"a{2}+", "nothing"}, Refusal{"(?=a)*", "nothing"},
        Refusal{"|+", "nothing"}, Refusal{"a{,3}", "repetition"}, Refusal{"a{x}", "repetition"},
        Refusal{"a{3", "repetition"}, Refusal{"a{1,2,3}", "repetition"},
        Refusal{"(?i:ss)", "\"ss\""}, Refusal{"(?i:aFi)", "\"fi\""},
        Refusal{"(?i:\u017F)", "ASCII"}, Refusal{"(?i:[\u017F])", "ASCII"},
        Refusal{R"((?i:\x{17f}))", "ASCII"}, Refusal{R"((?i:\p{Lu}))", "property"},
        Refusal{"a\\", "ends too early"}));

TEST(PatternTranslation, InvalidUtf8IsRefused) {
  EXPECT_THROW(translate_oniguruma_pattern("a\xFF"), std::invalid_argument);
}

TEST(PatternTranslation, WhatMeansTheSameIsLeftAlone) {
  for (const char* pattern :
       {"a|b",        "(?:ab)+", "(?i:ab|c)?", "a{2}",        "a{2,}",        "a{2,3}",   "a*?",
        "a++",        "(?=a)b",  "(?!a)b",     "(?<=a)b",     "(?<!a)b",      "(?>a)",    "[a-z]",
        R"([^ab\-])", "漢",      "[漢-字]",    R"(\r\n\t\f)", R"(\x{1F600})", R"(\(\[\\)"}) {
    EXPECT_EQ(translate_oniguruma_pattern(pattern), pattern);
  }
}

TEST(PatternTranslation, IgnoringCaseEndsWithItsGroup) {
  EXPECT_NO_THROW(translate_oniguruma_pattern(R"((?i:(?:a)b)ss\p{L}\x{17f}ſ)"));
}

TEST(PatternTranslation, LettersAreJoinedWithThoseSinceUnicode14) {
  const std::string translated = translate_oniguruma_pattern(R"([^\p{Lu}])");
  EXPECT_THAT(translated, testing::StartsWith(R"([^\p{Lu}\x{1C89}-\x{1C89})"));
  EXPECT_THAT(translated, testing::Not(HasSubstr("1C8A")));  // a small letter
}

}  // namespace
}  // namespace espalier::text
