#include "text/ggml_vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <stdexcept>
#include <string>
#include <vector>

#include "text/byte_level.h"

namespace espalier::text {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int32_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6;

/// A vocabulary that keeps the strings to which it refers.
struct OwnedVocabulary {
  std::deque<std::string> strings;
  GgmlVocabulary given;

  uint32_t add(std::string content, int32_t type = kNormal, float score = 0) {
    given.tokens.push_back(strings.emplace_back(std::move(content)));
    given.token_type.push_back(type);
    given.scores.push_back(score);
    return static_cast<uint32_t>(given.tokens.size() - 1);
  }
  Tokenizer tokenizer() const { return tokenizer_of_ggml(given, "m.gguf"); }
};

/// Ids 0 to 255 are the bytes, 256 "he", 257 "<end>", 258 "<tool>", 259 unused.
OwnedVocabulary byte_level(const std::string& pre) {
  OwnedVocabulary vocabulary;
  vocabulary.given.model = "gpt2";
  vocabulary.given.pre = pre;
  for (int byte = 0; byte < 256; ++byte) {
    const char raw = static_cast<char>(byte);
    vocabulary.add(to_byte_level({&raw, 1}));
  }
  vocabulary.add("he");
  vocabulary.given.merges = {"h e"};
  vocabulary.given.eos_token_id = vocabulary.add("<end>", kControl);
  vocabulary.add("<tool>", kUserDefined);
  vocabulary.add("[PAD0]", kUnused);
  return vocabulary;
}

/// Ids 0 <unk>, 1 <s>, 2 </s>, 3 to 258 the bytes, then pieces.
OwnedVocabulary sentencepiece() {
  OwnedVocabulary vocabulary;
  vocabulary.given.model = "llama";
  vocabulary.add("<unk>", kUnknown);
  vocabulary.add("<s>", kControl);
  vocabulary.add("</s>", kControl);
  for (int byte = 0; byte < 256; ++byte) {
    constexpr char kDigits[] = "0123456789ABCDEF";
    vocabulary.add({'<', '0', 'x', kDigits[byte / 16], kDigits[byte % 16], '>'}, kByte);
  }
  const char* const pieces[] = {"ab", "\u2581ab", "bc", "\u2581", "a", "b",
                                "c",  "<",        "s",  ">",      "<s"};
  for (const char* piece : pieces) {
    vocabulary.add(piece, kNormal, -static_cast<float>(vocabulary.given.tokens.size()));
  }
  return vocabulary;
}

TEST(GgmlVocabulary, ByteLevelWordsAreMergedAndEnded) {
  OwnedVocabulary vocabulary = byte_level("qwen2");
  vocabulary.given.add_eos_token = true;
  const Tokenizer tokenizer = vocabulary.tokenizer();
  EXPECT_THAT(tokenizer.encode("hey"), ElementsAre(256, 'y', 257));
  EXPECT_THAT(tokenizer.encode("h<tool>e"), ElementsAre('h', 258, 'e', 257));
  EXPECT_EQ(tokenizer.encode("[PAD0]").size(), 7U) << "fillers are no tokens of a text";
  EXPECT_TRUE(tokenizer.is_special(257));
  EXPECT_FALSE(tokenizer.is_special(258));
  // NFC, as the model was trained; llama.cpp leaves it out.
  EXPECT_EQ(tokenizer.encode("e\u0301"), tokenizer.encode("\u00e9"));
}

TEST(GgmlVocabulary, WithoutNfcWhereTheModelHasNone) {
  OwnedVocabulary vocabulary = byte_level("gpt-2");
  EXPECT_NE(vocabulary.tokenizer().encode("e\u0301"), vocabulary.tokenizer().encode("\u00e9"));
  EXPECT_THAT(vocabulary.tokenizer().encode("he"), ElementsAre(256));
}

TEST(GgmlVocabulary, Llama3BeginsTextsUnlessTheFileSaysOtherwise) {
  OwnedVocabulary vocabulary = byte_level("llama-bpe");
  vocabulary.given.bos_token_id = 257;
  EXPECT_THAT(vocabulary.tokenizer().encode("he"), ElementsAre(257, 256));
  vocabulary.given.add_bos_token = false;
  EXPECT_THAT(vocabulary.tokenizer().encode("he"), ElementsAre(256));
}

TEST(GgmlVocabulary, PiecesAreMergedByScore) {
  OwnedVocabulary vocabulary = sentencepiece();
  const Tokenizer tokenizer = vocabulary.tokenizer();
  const uint32_t first = 259;
  // "ab" before "bc"; then with the space before it.
  EXPECT_THAT(tokenizer.encode("abc"), ElementsAre(1, first + 1, first + 6));
  EXPECT_THAT(tokenizer.encode("bc"), ElementsAre(1, first + 3, first + 2));
  // Without a piece: bytes.
  EXPECT_THAT(tokenizer.encode("\u00e9"), ElementsAre(1, first + 3, 3 + 0xC3, 3 + 0xA9));
  vocabulary.given.add_space_prefix = false;
  vocabulary.given.add_eos_token = true;
  EXPECT_THAT(vocabulary.tokenizer().encode("bc"), ElementsAre(1, first + 2, 2));
}

TEST(GgmlVocabulary, NoTextSpellsAControlToken) {
  const Tokenizer tokenizer = sentencepiece().tokenizer();
  EncodeOptions plain;
  plain.add_special_tokens = false;
  EXPECT_THAT(tokenizer.encode("<s>", plain), ElementsAre(1));
  plain.match_added_tokens = false;
  EXPECT_THAT(tokenizer.encode("<s>", plain), ::testing::Not(::testing::Contains(1)));
}

TEST(GgmlVocabulary, RefusesByKey) {
  const auto with = [](OwnedVocabulary vocabulary, const auto& change, const std::string& message) {
    change(vocabulary.given);
    EXPECT_THAT([&] { vocabulary.tokenizer(); },
                ThrowsMessage<std::runtime_error>(
                    AllOf(HasSubstr("m.gguf: tokenizer.ggml."), HasSubstr(message))));
  };
  using Given = GgmlVocabulary;
  with(
      byte_level("qwen2"), [](Given& g) { g.model = "bert"; }, "model: \"bert\" is not supported");
  with(
      byte_level(""), [](Given&) {}, "pre: is missing");
  with(
      byte_level("qwen2 f2llmv2"), [](Given&) {}, "pre: ");
  with(
      byte_level("default"), [](Given&) {}, "pre: \"default\" is not supported");
  with(
      byte_level("qwen2"), [](Given& g) { g.tokens.clear(); }, "tokens: is empty");
  with(
      byte_level("qwen2"), [](Given& g) { g.tokens[7] = g.tokens[8]; }, "tokens: ");
  with(
      byte_level("qwen2"), [](Given& g) { g.tokens[7] = "\xff"; }, "no valid UTF-8");
  with(
      byte_level("qwen2"), [](Given& g) { g.token_type.pop_back(); }, "token_type: has 259");
  with(
      byte_level("qwen2"), [](Given& g) { g.token_type[9] = 77; }, "token_type: 77 of id 9");
  with(
      byte_level("qwen2"), [](Given& g) { g.merges = {"he"}; }, "merges: merge 0");
  with(
      byte_level("qwen2"), [](Given& g) { g.merges = {"h x"}; }, "merges: merge 0");
  with(
      byte_level("qwen2"), [](Given& g) { g.merges.clear(); }, "merges: is missing");
  with(
      byte_level("llama-bpe"), [](Given&) {}, "bos_token_id: is missing");
  with(
      sentencepiece(), [](Given& g) { g.scores.pop_back(); }, "scores: ");
  with(
      sentencepiece(), [](Given& g) { g.scores[300 % g.scores.size()] = NAN; }, "scores: ");
  with(
      sentencepiece(), [](Given& g) { g.bos_token_id = 1 << 20; }, "bos_token_id: 1048576 is not");
}

}  // namespace
}  // namespace espalier::text
