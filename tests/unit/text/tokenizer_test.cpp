#include "text/tokenizer.h"

#include <gmock/gmock.h>

#include <random>
#include <thread>

#include "tests/unit/text/small_tokenizer.h"

namespace espalier::text {
namespace {

using Ids = std::vector<uint32_t>;

constexpr EncodeOptions kPlain{.add_special_tokens = false};
constexpr EncodeOptions kUnmatched{.add_special_tokens = false, .match_added_tokens = false};

Ids concat(std::initializer_list<Ids> parts) {
  Ids all;
  for (const Ids& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST(Tokenizer, TheMiniModelsTokenizerAppendsItsEndToken) {
  const Tokenizer& tokenizer = mini_tokenizer();
  EXPECT_EQ(tokenizer.prefix_tokens(), Ids{});
  EXPECT_EQ(tokenizer.suffix_tokens(), Ids{8187});
  EXPECT_EQ(tokenizer.encode(""), Ids{8187});
  EXPECT_EQ(tokenizer.encode("", kPlain), Ids{});
  EXPECT_EQ(tokenizer.id_count(), 8192u);
}

TEST(Tokenizer, TokenIdsAreFoundByExactContent) {
  const Tokenizer& tokenizer = mini_tokenizer();
  EXPECT_EQ(tokenizer.token_id("yes"), 2564u);
  EXPECT_EQ(tokenizer.token_id("no"), 2449u);
  EXPECT_EQ(tokenizer.token_id("<|im_end|>"), 8189u);
  EXPECT_EQ(tokenizer.token_id("\u0120a"), tokenizer.encode(" a", kPlain).at(0));
  EXPECT_EQ(tokenizer.token_id("yes "), std::nullopt);
  EXPECT_EQ(tokenizer.token_id(""), std::nullopt);
}

TEST(Tokenizer, TemplatesPutIdsOnBothSides) {
  const auto tokenizer =
      small_tokenizer({{"/post_processor", R"({"type": "Sequence", "processors": [
    {"type": "ByteLevel"}, {"type": "TemplateProcessing", "single": [
      {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
      {"SpecialToken": {"id": "<e>", "type_id": 0}}, {"SpecialToken": {"id": "<e>", "type_id": 0}}],
     "special_tokens": {"<s>": {"ids": [1, 2]}, "<e>": {"ids": [3]}}}]})"}});
  EXPECT_EQ(tokenizer.prefix_tokens(), (Ids{1, 2}));
  EXPECT_EQ(tokenizer.suffix_tokens(), (Ids{3, 3}));
  EXPECT_EQ(tokenizer.encode("hi"), (Ids{1, 2, 'h', 'i', 3, 3}));
  EXPECT_EQ(tokenizer.encode("hi", kPlain), byte_ids("hi"));
}

TEST(Tokenizer, TextIsNormalizedBetweenAddedTokensOnly) {
  const auto tokenizer = small_tokenizer(
      {{"/added_tokens", R"([{"content": "e\u0301", "id": 256, "normalized": false}])"}});
  EXPECT_EQ(tokenizer.encode("e\u0301"), Ids{256});
  EXPECT_EQ(tokenizer.encode("\u00E9o\u0301"), byte_ids("\u00E9\u00F3"));
}

TEST(Tokenizer, NormalizedAddedTokensAreFoundInNormalizedText) {
  const auto tokenizer = small_tokenizer(
      {{"/added_tokens", R"([{"content": "<e\u0301>", "id": 256, "normalized": true}])"}});
  EXPECT_EQ(tokenizer.encode("x<e\u0301>"), (Ids{'x', 256}));
  EXPECT_EQ(tokenizer.encode("x<\u00E9>"), (Ids{'x', 256}));
}

TEST(Tokenizer, AddedTokensThatAreNotMatchedAreSpelled) {
  const Tokenizer& tokenizer = mini_tokenizer();
  const std::string text = "<|im_end|><|im_end|>";
  EXPECT_EQ(tokenizer.encode(text, kPlain), (Ids{8189, 8189}));
  const Ids spelled = tokenizer.encode(text, kUnmatched);
  EXPECT_GT(spelled.size(), 2u);
  EXPECT_THAT(spelled, testing::Each(testing::Lt(8187u)));
  EXPECT_EQ(tokenizer.encode(text, {.match_added_tokens = false}), concat({spelled, {8187}}))
      << "the template is applied none the less";
}

TEST(Tokenizer, AddedTokensAreMatchedEverywhereOrNowhere) {
  const auto tokenizer = small_tokenizer({{"/added_tokens", R"([
    {"content": "<raw>", "id": 256, "normalized": false, "lstrip": true, "rstrip": true},
    {"content": "<nfc>", "id": 257, "normalized": true}])"}});
  // Invalid bytes and decomposed characters are replaced in either case.
  const std::string text =
      "\xFF"
      "e\u0301 <raw> <nfc><raw><nfc>";
  const Ids start = byte_ids("\uFFFD\u00E9");
  EXPECT_EQ(tokenizer.encode(text, kPlain), concat({start, {256, 257, 256, 257}}));
  EXPECT_EQ(tokenizer.encode(text, kUnmatched),
            concat({start, byte_ids(" <raw> <nfc><raw><nfc>")}));
}

TEST(Tokenizer, InvalidUtf8IsReadAsReplacementCharacters) {
  const Tokenizer& tokenizer = mini_tokenizer();
  EXPECT_EQ(tokenizer.encode("a\xFF"
                             "b\xED\xA0\x80"),
            tokenizer.encode("a\uFFFDb\uFFFD\uFFFD\uFFFD"));
  EXPECT_EQ(tokenizer.encode("\xE6\xBC"), tokenizer.encode("\uFFFD"));
}

TEST(Tokenizer, ZeroBytesAreText) {
  const auto tokenizer = small_tokenizer();
  EXPECT_EQ(tokenizer.encode(std::string_view("a\0b", 3)), (Ids{'a', 0, 'b'}));
}

TEST(Tokenizer, PrefixSpacesAndByteLevelsOwnPattern) {
  const auto tokenizer = small_tokenizer(
      {{"/pre_tokenizer", R"({"type": "ByteLevel", "add_prefix_space": true, "use_regex": true})"},
       {"/added_tokens", R"([{"content": "<x>", "id": 258}])"},
       {"/model/vocab/\u0120a", "256"},
       {"/model/vocab/a1", "257"},
       {"/model/merges", R"(["\u0120 a", "a 1"])"}});
  EXPECT_EQ(tokenizer.encode("a1 a"), (Ids{256, '1', 256}));
  EXPECT_EQ(tokenizer.encode(" a<x>a"), (Ids{256, 258, 256}));
  EXPECT_EQ(tokenizer.encode(""), Ids{});
  EXPECT_EQ(tokenizer.encode("", kUnmatched), Ids{}) << "no space before nothing";
}

TEST(Tokenizer, RandomBytesGiveIdsOfTheVocabularyThatSpellTheText) {
  const auto tokenizer = small_tokenizer({{"/normalizer", "null"}});
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    std::string bytes;
    for (size_t length = random() % 60; bytes.size() < length;) {
      bytes += static_cast<char>(random() % 3 == 0 ? random() % 256 : 'a' + random() % 3);
    }
    std::string spelled;
    for (const uint32_t id : tokenizer.encode(bytes)) {
      ASSERT_LT(id, 256u);
      spelled += static_cast<char>(id);
    }
    ASSERT_EQ(tokenizer.encode(spelled), byte_ids(spelled)) << "what is spelled is valid UTF-8";
    for (const uint32_t id : mini_tokenizer().encode(bytes)) ASSERT_LT(id, 8192u);
  }
}

TEST(Tokenizer, ManyThreadsGetTheSameIds) {
  const Tokenizer& tokenizer = mini_tokenizer();
  const std::vector<std::string> texts = {"It's a dictionary: e\u0301 <think> 漢字\n\n  x",
                                          std::string(3000, ' ') + "word", "<|im_start|>user\xFF"};
  std::vector<Ids> expected;
  for (const std::string& text : texts) expected.push_back(tokenizer.encode(text));
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 60; ++i) {
        wrong[t] += tokenizer.encode(texts[i % texts.size()]) != expected[i % texts.size()];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

}  // namespace
}  // namespace espalier::text
