// Vocabularies of characters, from text to ids and back.
#include <gmock/gmock.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "tests/unit/text/small_tokenizer.h"
#include "text/sentencepiece_merges.h"
#include "text/tokenizer.h"
#include "text/tokenizer_spec.h"

namespace espalier::text {
namespace {

using Ids = std::vector<uint32_t>;
using testing::HasSubstr;
using testing::StartsWith;

Ids bytes_of(std::string_view text) {
  Ids ids;
  for (const char byte : text) ids.push_back(3 + static_cast<unsigned char>(byte));
  return ids;
}

Ids joined(std::initializer_list<Ids> parts) {
  Ids all;
  for (const Ids& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST(SentencePiece, WritesCharactersAndFallsBackToBytes) {
  const auto tokenizer = small_sentencepiece();
  EXPECT_EQ(tokenizer.encode("a \u4E2D"), character_ids(" a \u4E2D"));
  EXPECT_EQ(tokenizer.encode("\n\u00E9"), joined({{kMarkId}, bytes_of("\n\u00E9")}));
  EXPECT_EQ(tokenizer.encode(std::string_view("\0", 1)), joined({{kMarkId}, {3}}));
  EXPECT_EQ(tokenizer.encode("\xFF"), joined({{kMarkId}, bytes_of("\uFFFD")}));
  EXPECT_EQ(tokenizer.encode("<0x0A>"), character_ids(" <0x0A>")) << "text spells no byte";
  EXPECT_EQ(tokenizer.encode(""), Ids{});
  EXPECT_EQ(tokenizer.encode(" "), character_ids("  "));
}

TEST(SentencePiece, CharactersWithoutBytesAreUnknown) {
  const Change no_bytes{"/model/byte_fallback", "false"};
  const auto fused = small_sentencepiece({no_bytes});
  EXPECT_EQ(fused.encode("\u00E9\u00E8a\u00E9"), joined({{kMarkId, 0}, character_ids("a"), {0}}));
  const auto single = small_sentencepiece({no_bytes, {"/model/fuse_unk", "false"}});
  EXPECT_EQ(single.encode("\u00E9\u00E8a"), joined({{kMarkId, 0, 0}, character_ids("a")}));
}

TEST(SentencePiece, SomeBytesAreTakenBeforeWhatIsUnknown) {
  // As in the library: the unknown token is put when a character that is known follows.
  const auto tokenizer = small_sentencepiece({{"/model/vocab/<0xC3>", "remove"}});
  EXPECT_EQ(tokenizer.encode("\u00E9\na"),
            joined({{kMarkId}, bytes_of("\n"), {0}, character_ids("a")}));
}

TEST(SentencePiece, TextBetweenAddedTokensIsNormalizedByItself) {
  const char* raw = R"([{"content": "<s>", "id": 1, "special": true}])";
  const char* normalized = R"([{"content": "<s>", "id": 1, "special": true, "normalized": true}])";
  EXPECT_EQ(small_sentencepiece({{"/added_tokens", raw}}).encode("a<s>b"),
            joined({character_ids(" a"), {1}, character_ids(" b")}));
  // What is looked for has a mark in front then.
  const auto tokenizer = small_sentencepiece({{"/added_tokens", normalized}});
  EXPECT_EQ(tokenizer.encode("a<s>b <s>c"),
            joined({character_ids(" a<s>b"), {1}, character_ids("c")}));
}

TEST(SentencePiece, MetaspaceMarksTheFirstTextOnly) {
  const auto tokenizer = small_sentencepiece(
      {{"/normalizer", "null"},
       {"/pre_tokenizer",
        R"({"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first",
         "split": false})"},
       {"/added_tokens", R"([{"content": "<s>", "id": 1}])"}});
  EXPECT_EQ(tokenizer.encode("a b<s>c"), joined({character_ids(" a b"), {1}, character_ids("c")}));
  EXPECT_EQ(tokenizer.encode("<s>c"), joined({{1}, character_ids("c")}));
}

/// Merges over a mark must be found, although texts are cut at marks where there are none.
TEST(SentencePiece, MergesMayReachOverMarks) {
  const std::vector<Change> vocabulary = {{"/model/vocab/\u2581a", "355"},
                                          {"/model/vocab/b\u2581a", "356"}};
  auto within = vocabulary, over = vocabulary;
  within.push_back({"/model/merges", R"(["\u2581 a"])"});
  over.push_back({"/model/merges", R"(["\u2581 a", "b \u2581a"])"});
  EXPECT_EQ(small_sentencepiece(within).encode("b a"), joined({character_ids(" b"), {355}}));
  EXPECT_EQ(small_sentencepiece(over).encode("b a"), joined({character_ids(" "), {356}}));
  auto whole = vocabulary;
  whole.push_back({"/model/vocab/\u2581b\u2581a", "357"});
  whole.push_back({"/model/ignore_merges", "true"});
  EXPECT_EQ(small_sentencepiece(whole).encode("b a"), Ids{357});
}

TEST(SentencePiece, DecodesToTheText) {
  const auto tokenizer =
      small_sentencepiece({{"/added_tokens", R"([{"content": "<s>", "id": 1, "special": true}])"}});
  const std::string text = "  a \u4E2D\n\u00E9 \U0001F600!";
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text), false), text);
  EXPECT_EQ(tokenizer.decode(Ids{1, kMarkId}, true), "");
  EXPECT_EQ(tokenizer.decode(Ids{1, kMarkId}, false), "<s> ");
  EXPECT_EQ(tokenizer.token_bytes(3 + 0xE4), "\xE4");
  EXPECT_EQ(tokenizer.token_bytes(kMarkId), " ");
  EXPECT_EQ(tokenizer.token_content(kMarkId), "\u2581");
}

TEST(SentencePiece, OffsetsAreThoseOfTheGivenText) {
  const auto tokenizer =
      small_sentencepiece({{"/model/vocab/\u2581b", "355"}, {"/model/merges", R"(["\u2581 b"])"}});
  EXPECT_EQ(tokenizer.encode_with_offsets("a b\u00E9"),
            (std::vector<TokenWithOffsets>{{kMarkId, 0, 1},
                                           {character_ids("a")[0], 0, 1},
                                           {355, 1, 3},
                                           {3 + 0xC3, 3, 5},
                                           {3 + 0xA9, 3, 5}}));
}

TEST(SentencePiece, SharesWhatTextsBeginWithIfNothingIsPrepended) {
  const auto prepended = small_sentencepiece().encode_beginning("a b c");
  EXPECT_EQ(prepended.ids, Ids{});
  EXPECT_EQ(prepended.rest, "a b c");
  const auto shared =
      small_sentencepiece({{"/normalizer", "null"},
                           {"/pre_tokenizer", R"({"type": "Metaspace", "replacement": "\u2581"})"}})
          .encode_beginning("a b c");
  EXPECT_EQ(shared.ids, character_ids(" a b"));
  EXPECT_EQ(shared.rest, "\u2581c");
}

class HostileSentence : public testing::TestWithParam<const char*> {};

/// Merged by ranks that make many candidates at a time, as one word or as words.
TEST_P(HostileSentence, OfMegabytesIsEncodedInTime) {
  const auto tokenizer =
      small_sentencepiece({{"/model/vocab/aa", "355"},
                           {"/model/vocab/aaaa", "356"},
                           {"/model/vocab/\u2581\u2581", "357"},
                           {"/model/vocab/\u2581a", "358"},
                           {"/model/merges", R"(["a a", "aa aa", "\u2581 \u2581", "\u2581 a"])"}});
  std::string text;
  while (text.size() < (4u << 20)) text += GetParam();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_GT(tokenizer.encode(text).size(), 1000u);
  EXPECT_GT(tokenizer.encode_with_offsets(text).size(), 1000u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

INSTANTIATE_TEST_SUITE_P(, HostileSentence,
                         testing::Values("a", " ", "a ", "\u2581", "\xFF", "\n", "\u4E2D", "<0x0A>",
                                         "\U0001F600"));

TEST(SentencePiece, OfAnyLengthIsCutInTheSameTime) {
  std::string text;
  while (text.size() < (8u << 20)) text += "word and w\u00F6rd \u6F22\u5B57, ";
  const auto tokenizer = small_sentencepiece();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(tokenizer.encode_up_to(text, 100).cut);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(15));
}

std::vector<std::string> merged_pairs(const std::vector<std::string>& tokens,
                                      const std::vector<float>& scores) {
  std::vector<std::string> pairs;
  for (const Merge& merge : sentencepiece_merges(tokens, scores)) {
    pairs.push_back(tokens[merge.left] + "+" + tokens[merge.right]);
    EXPECT_EQ(tokens[merge.merged], tokens[merge.left] + tokens[merge.right]);
  }
  return pairs;
}

TEST(SentencePieceMerges, AreInTheOrderOfScoresThenIds) {
  EXPECT_EQ(merged_pairs({"a", "b", "ab", "c", "bc", "abc"}, {0, 0, -3, 0, -1, -2}),
            (std::vector<std::string>{"b+c", "a+bc", "ab+c", "a+b"}));
  EXPECT_EQ(merged_pairs({"a", "aa", "aaa"}, {0, 0, 0}),
            (std::vector<std::string>{"a+a", "a+aa", "aa+a"}));
}

TEST(SentencePieceMerges, EmptyRepeatedAndLongTokensMakeNone) {
  EXPECT_EQ(merged_pairs({"a", "", "aa", "aa", ""}, {0, 0, -1, 5, 0}),
            std::vector<std::string>{"a+a"});
  const std::string run(1 << 20, 'a');
  EXPECT_TRUE(merged_pairs({"a", run, run.substr(1)}, {0, 0, 0}).empty());
}

TEST(SentencePieceMerges, NeedAScoreForEachToken) {
  const std::vector<float> none, no_number = {std::numeric_limits<float>::quiet_NaN()};
  EXPECT_THROW(sentencepiece_merges({"a"}, none), std::invalid_argument);
  EXPECT_THROW(sentencepiece_merges({"a"}, no_number), std::invalid_argument);
}

TokenizerSpec small_spec() {
  TokenizerSpec spec;
  spec.model.vocabulary = {{"<unk>", 0}, {"a", 1}, {"b", 2}, {"ab", 3}};
  spec.model.merges = {{1, 2, 3}};
  spec.model.byte_level = false;
  spec.model.unknown.unk_id = 0;
  return spec;
}

std::string refusal_of(TokenizerSpec spec) {
  try {
    Tokenizer::from_spec(std::move(spec), "a.gguf");
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), StartsWith("a.gguf: "));
    return error.what();
  }
  return "";
}

TEST(TokenizerSpec, MakesATokenizerWithoutJson) {
  const auto tokenizer = Tokenizer::from_spec(small_spec(), "a.gguf");
  EXPECT_EQ(tokenizer.encode("abxa"), (Ids{3, 0, 1}));
  EXPECT_EQ(tokenizer.id_count(), 4u);
}

TEST(TokenizerSpec, IsRefusedWhereIdsDoNotFitTogether) {
  const auto with = [](const auto& change) {
    TokenizerSpec spec = small_spec();
    change(spec);
    return refusal_of(std::move(spec));
  };
  EXPECT_THAT(with([](auto& spec) { spec.model.vocabulary["c"] = 1; }),
              HasSubstr("two entries have the id 1"));
  EXPECT_THAT(with([](auto& spec) { spec.model.vocabulary["c"] = UINT32_MAX; }),
              HasSubstr("too large"));
  EXPECT_THAT(with([](auto& spec) {
                spec.model.merges.push_back({1, 9, 3});
              }),
              HasSubstr("merge 1 needs id 9"));
  EXPECT_THAT(with([](auto& spec) { spec.model.unknown.unk_id = 9; }), HasSubstr("unknown token"));
  EXPECT_THAT(with([](auto& spec) { spec.model.unknown = {}; }), HasSubstr("would vanish"));
  EXPECT_THAT(with([](auto& spec) { spec.model.byte_level = true; }), HasSubstr("byte 0"));
  EXPECT_THAT(with([](auto& spec) { spec.post_processor.suffix = {4}; }), HasSubstr("id 4"));
  EXPECT_THAT(with([](auto& spec) {
                spec.added_tokens.push_back({.content = "<s>", .pattern = {}, .id = 4});
              }),
              HasSubstr("set_pattern()"));
  EXPECT_THAT(with([](auto& spec) { spec.pre_tokenizer.add_prefix_space = true; }),
              HasSubstr("byte-level"));
}

}  // namespace
}  // namespace espalier::text
