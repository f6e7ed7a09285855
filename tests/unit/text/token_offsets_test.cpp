// Tokenizer::encode_with_offsets: what each id stands for in the text as it was given.
#include <gtest/gtest.h>

#include "tests/unit/text/small_tokenizer.h"
#include "text/tokenizer.h"

namespace espalier::text {
namespace {

using Tokens = std::vector<TokenWithOffsets>;

constexpr EncodeOptions kPlain{.add_special_tokens = false};

/// The stretches of `text` that its tokens stand for.
std::vector<std::string> pieces(const Tokenizer& tokenizer, std::string_view text,
                                const EncodeOptions& options = kPlain) {
  std::vector<std::string> result;
  for (const auto& token : tokenizer.encode_with_offsets(text, options)) {
    result.emplace_back(text.substr(token.begin, token.end - token.begin));
  }
  return result;
}

using Strings = std::vector<std::string>;

TEST(TokenOffsets, CutAsciiIntoItsTokens) {
  const Tokenizer& tokenizer = mini_tokenizer();
  EXPECT_EQ(pieces(tokenizer, "The yes no\n"), (Strings{"The", " yes", " no", "\n"}));
  EXPECT_EQ(tokenizer.encode_with_offsets("yes"), (Tokens{{2564, 0, 3}, {8187, 3, 3, true}}));
  EXPECT_EQ(tokenizer.encode_with_offsets(""), (Tokens{{8187, 0, 0, true}}));
  EXPECT_EQ(tokenizer.encode_with_offsets("", kPlain), Tokens{});
}

TEST(TokenOffsets, TokensOfOneCharacterAllHaveIt) {
  EXPECT_EQ(pieces(small_tokenizer(), "a\u4E2Db"),
            (Strings{"a", "\u4E2D", "\u4E2D", "\u4E2D", "b"}));
}

TEST(TokenOffsets, AreThoseOfTheTextBeforeNormalization) {
  EXPECT_EQ(pieces(small_tokenizer(), "xe\u0301y"), (Strings{"x", "e\u0301", "e\u0301", "y"}));
  EXPECT_EQ(pieces(small_tokenizer({{"/normalizer", "null"}}), "e\u0301"),
            (Strings{"e", "\u0301", "\u0301"}));
}

TEST(TokenOffsets, InvalidBytesAreTheRangeOfTheirReplacementCharacter) {
  EXPECT_EQ(pieces(small_tokenizer(), "a\xE4\xB8z\xFF"),
            (Strings{"a", "\xE4\xB8", "\xE4\xB8", "\xE4\xB8", "z", "\xFF", "\xFF", "\xFF"}));
  EXPECT_EQ(pieces(small_tokenizer(),
                   "\x80"
                   "e\u0301"),
            (Strings{"\x80", "\x80", "\x80", "e\u0301", "e\u0301"}));
}

TEST(TokenOffsets, SpecialTokensInTheTextAreTokensOfTheText) {
  const Tokenizer& tokenizer = mini_tokenizer();
  EXPECT_EQ(tokenizer.encode_with_offsets("no<|im_end|>yes"),
            (Tokens{{2449, 0, 2}, {8189, 2, 12}, {2564, 12, 15}, {8187, 15, 15, true}}));
  EXPECT_EQ(pieces(tokenizer, "e\u0301<|im_end|>yes").at(2), "<|im_end|>");
  EXPECT_EQ(pieces(tokenizer, "<|im_end|>", {.match_added_tokens = false}).front(), "<");
}

TEST(TokenOffsets, TemplatesStandAtBothEnds) {
  const auto tokenizer = small_tokenizer({{"/post_processor", R"({"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "<e>"}}],
    "special_tokens": {"<s>": {"ids": [1, 2]}, "<e>": {"ids": [3]}}})"}});
  EXPECT_EQ(tokenizer.encode_with_offsets("hi"),
            (Tokens{{1, 0, 0, true}, {2, 0, 0, true}, {'h', 0, 1}, {'i', 1, 2}, {3, 2, 2, true}}));
}

TEST(TokenOffsets, AddedTokensHaveTheWhiteSpaceThatTheySwallow) {
  const auto tokenizer = small_tokenizer(
      {{"/added_tokens", R"([{"content": "<e\u0301>", "id": 256, "normalized": true, "lstrip": true,
        "rstrip": true}])"}});
  EXPECT_EQ(pieces(tokenizer, "a  <e\u0301> b"), (Strings{"a", "  <e\u0301> ", "b"}));
}

TEST(TokenOffsets, APrefixSpaceBelongsToTheCharacterBehindIt) {
  const auto tokenizer = small_tokenizer(
      {{"/pre_tokenizer", R"({"type": "ByteLevel", "add_prefix_space": true, "use_regex": true})"},
       {"/model/vocab/\u0120h", "256"},
       {"/model/merges", R"(["\u0120 h"])"}});
  EXPECT_EQ(pieces(tokenizer, "hi"), (Strings{"h", "i"}));
  EXPECT_EQ(pieces(tokenizer, " hi"), (Strings{" h", "i"}));
  EXPECT_EQ(pieces(tokenizer, "\u00E9i"), (Strings{"\u00E9", "\u00E9", "\u00E9", "i"}));
  EXPECT_EQ(pieces(tokenizer, "\n x"), (Strings{"\n", "\n", " ", "x"}));
}

TEST(TokenOffsets, AnAddedTokenWithTheIdOfAnEntryDoesNotMoveThem) {
  // The vocabulary has 257 entries, so the added token gets the id 257, which one of them has.
  const auto tokenizer =
      small_tokenizer({{"/model/vocab/ab", "257"},
                       {"/model/merges", R"(["a b"])"},
                       {"/added_tokens", R"([{"content": "a long token", "id": 257}])"}});
  EXPECT_EQ(pieces(tokenizer, "xabcd"), (Strings{"x", "ab", "c", "d"}));
}

}  // namespace
}  // namespace espalier::text
