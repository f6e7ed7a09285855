// From ids back to text: Tokenizer::decode, token_content, token_bytes, is_special.
#include <gtest/gtest.h>

#include "tests/unit/text/small_tokenizer.h"
#include "text/tokenizer.h"

namespace espalier::text {
namespace {

using Ids = std::vector<uint32_t>;

constexpr const char* kAddedTokens =
    R"([{"content": "<s>", "id": 256, "special": true}, {"content": "<p>", "id": 257}])";

TEST(Decode, GivesTheEncodedTextBack) {
  const Tokenizer& tokenizer = mini_tokenizer();
  const std::string text = "It's \u4E2D\u6587, \U0001F600\n\n  caf\u00E9!";
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text), true), text);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text), false), text + "<|endoftext|>");
  EXPECT_EQ(tokenizer.decode({}, false), "");
}

TEST(Decode, LeavesOutSpecialTokensOnly) {
  const auto tokenizer = small_tokenizer({{"/added_tokens", kAddedTokens}});
  const Ids ids = {'a', 256, 'b', 257, 'c'};
  EXPECT_EQ(tokenizer.decode(ids, false), "a<s>b<p>c");
  EXPECT_EQ(tokenizer.decode(ids, true), "ab<p>c");
  EXPECT_TRUE(tokenizer.is_special(256));
  EXPECT_FALSE(tokenizer.is_special(257));
  EXPECT_FALSE(tokenizer.is_special('a'));
  EXPECT_FALSE(tokenizer.is_special(258));
}

TEST(Decode, BytesOfACharacterAreJoinedAndOthersBecomeReplacementCharacters) {
  const auto tokenizer = small_tokenizer();
  EXPECT_EQ(tokenizer.decode(Ids{0xE4, 0xB8, 0xAD}, true), "\u4E2D");
  EXPECT_EQ(tokenizer.decode(Ids{0xE4, 0xB8}, true), "\uFFFD");
  EXPECT_EQ(tokenizer.decode(Ids{0xE4, 0xB8, 'x', 0xAD}, true), "\uFFFDx\uFFFD");
  EXPECT_EQ(tokenizer.decode(Ids{0xFF, 0xFE}, true), "\uFFFD\uFFFD");
}

TEST(Decode, IdsWithoutAnEntryStandForNothing) {
  const auto tokenizer = small_tokenizer({{"/added_tokens", kAddedTokens}});
  EXPECT_EQ(tokenizer.decode(Ids{'a', 258, 4'000'000'000, 'b'}, false), "ab");
  EXPECT_EQ(tokenizer.token_content(258), std::nullopt);
  EXPECT_EQ(tokenizer.token_bytes(258), "");
}

TEST(Decode, AddedTokensAreReadByTheByteLevelDecoderToo) {
  // As in Hugging Face's: U+00C5 is the alphabet's character for byte C5, U+4E2D is not in it.
  const auto tokenizer = small_tokenizer(
      {{"/added_tokens",
        R"([{"content": "\u00C5bc", "id": 256}, {"content": "\u00C5\u4E2D", "id": 257}])"}});
  EXPECT_EQ(tokenizer.decode(Ids{256}, false), "\uFFFDbc");
  EXPECT_EQ(tokenizer.decode(Ids{257}, false), "\u00C5\u4E2D");
}

TEST(TokenContent, IsWhatTheVocabularyWrites) {
  const Tokenizer& tokenizer = mini_tokenizer();
  const uint32_t the = tokenizer.token_id("\u0120the").value();
  EXPECT_EQ(tokenizer.token_content(the), "\u0120the");
  EXPECT_EQ(tokenizer.token_bytes(the), " the");
  EXPECT_EQ(tokenizer.token_content(8187), "<|endoftext|>");
  EXPECT_EQ(tokenizer.token_bytes(8190), "<think>");
  for (uint32_t id = 0; id < tokenizer.id_count(); ++id) {
    ASSERT_EQ(tokenizer.token_id(tokenizer.token_content(id).value()), id);
  }
}

TEST(TokenContent, IdsMayHaveGaps) {
  const auto tokenizer = small_tokenizer({{"/model/vocab/ab", "2147483647"}});
  EXPECT_EQ(tokenizer.token_content(2147483647), "ab");
  EXPECT_EQ(tokenizer.decode(Ids{2147483647, 1'000'000, 'c'}, false), "abc");
}

}  // namespace
}  // namespace espalier::text
