// Properties of encoding: what is cut, or tokenized once for many texts, has the ids of the whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tests/property/random_text.h"
#include "tests/unit/text/small_tokenizer.h"
#include "text/rerank_prompt.h"
#include "text/tokenizer.h"
#include "text/unicode_normalizer.h"
#include "text/utf8.h"

namespace espalier::text {
namespace {

using Ids = std::vector<uint32_t>;

constexpr EncodeOptions kPlain{.add_special_tokens = false, .match_added_tokens = false};

struct NamedTokenizer {
  const char* name;
  std::function<Tokenizer()> make;
};
void PrintTo(const NamedTokenizer& tokenizer, std::ostream* out) { *out << tokenizer.name; }

constexpr const char* kChatTokens =
    R"([{"content": "<|im_start|>", "id": 256, "normalized": true}, {"content": "<|im_end|>", "id": 257},
        {"content": "x\u00e9", "id": 258, "normalized": true}, {"content": "the", "id": 259},
        {"content": "<Query>", "id": 260, "special": true}])";
constexpr const char* kStrippingTokens =
    R"([{"content": "<|im_start|>", "id": 256}, {"content": "<|im_end|>", "id": 257, "lstrip": true,
         "rstrip": true}])";
constexpr const char* kByteLevelAlone =
    R"({"type": "ByteLevel", "add_prefix_space": %, "use_regex": #})";

std::string byte_level(const char* prefix_space, const char* use_regex) {
  std::string text = kByteLevelAlone;
  text.replace(text.find('%'), 1, prefix_space);
  return text.replace(text.find('#'), 1, use_regex);
}

Tokenizer small(std::vector<Change> changes) {
  changes.push_back({"/added_tokens", kChatTokens});
  return small_tokenizer(changes);
}

Tokenizer with_pattern(const char* json) {
  return small({{"/pre_tokenizer/pretokenizers/0/pattern/Regex", json},
                {"/pre_tokenizer/pretokenizers/1/add_prefix_space", "true"}});
}

constexpr const char* kMarkMerges =
    R"(["\u2581 t", "\u2581 \u2581", "\u2581\u2581 \u2581\u2581", "t h", "th e", "\u2581t he", "h e", "1 2"])";

std::vector<Change> with_mark_merges(std::vector<Change> changes) {
  uint32_t id = kSmallSentencePieceSize;
  for (const char* entry : {"\u2581t", "\u2581\u2581", "\u2581\u2581\u2581\u2581", "th", "the",
                            "\u2581the", "he", "12"}) {
    changes.insert(changes.begin(), {std::string("/model/vocab/") + entry, std::to_string(id++)});
  }
  changes.insert(changes.begin(), {"/model/merges", kMarkMerges});
  return changes;
}

/// Characters, with merges that reach over no mark unless `changes` put some in.
Tokenizer sentencepiece(const std::vector<Change>& changes) {
  return small_sentencepiece(with_mark_merges(changes));
}

/// They are numbered from the end of the vocabulary on.
constexpr const char* kMarkedTokens =
    R"([{"content": "<|im_start|>", "id": 363, "normalized": true}, {"content": "<|im_end|>", "id": 364},
        {"content": "the", "id": 359, "normalized": true}])";

std::string metaspace(const char* scheme, const char* split) {
  return std::string(R"({"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": ")") +
         scheme + R"(", "split": )" + split + "}";
}

/// With prefix spaces the small tokenizers' ids show every boundary between words.
const auto kTokenizers = std::to_array<NamedTokenizer>({
    {"Qwen3", [] { return Tokenizer::load(QWEN3_TOKENIZER_JSON); }},
    {"Mini", [] { return Tokenizer::load(ESPALIER_MINI_MODEL "/tokenizer.json"); }},
    {"QwensBoundaries",
     [] {
       return small({{"/pre_tokenizer/pretokenizers/1/add_prefix_space", "true"}});
     }},
    {"NoNormalizer",
     [] {
       return small({{"/normalizer", "null"}});
     }},
    {"LookBehind", [] { return with_pattern(R"re("(?<=\\s)\\S(?=.)|(?<!x)a{2,3}|.{4}")re"); }},
    {"EmptyMatches", [] { return with_pattern(R"re("x*")re"); }},
    {"FewMatches", [] { return with_pattern(R"re("\\p{N}{1,3}")re"); }},
    {"LongMatches", [] { return with_pattern(R"re("[^!]+(?=!)")re"); }},
    {"Gpt2",
     [] {
       return small({{"/pre_tokenizer", byte_level("false", "true")}});
     }},
    {"Gpt2PrefixSpace",
     [] {
       return small({{"/pre_tokenizer", byte_level("true", "true")}});
     }},
    {"OneWord",
     [] {
       return small({{"/pre_tokenizer", byte_level("true", "false")}});
     }},
    {"MergedWithNext",
     [] {
       return small({{"/pre_tokenizer/pretokenizers/0/behavior", "\"MergedWithNext\""},
                     {"/pre_tokenizer/pretokenizers/0/pattern/Regex", R"re("\\s")re"},
                     {"/pre_tokenizer/pretokenizers/1/add_prefix_space", "true"}});
     }},
    {"StrippingTokens",
     [] {
       return small_tokenizer({{"/added_tokens", kStrippingTokens},
                               {"/pre_tokenizer/pretokenizers/0/pattern/Regex", R"re("\\s")re"}});
     }},
});

/// Of other families: without Qwen's chat tokens, and most of them with vocabularies of characters,
/// whose entries do not spell every text.
const auto kOtherFamilies = std::to_array<NamedTokenizer>({
    {"Llama2", [] { return Tokenizer::load(LLAMA2_TOKENIZER_JSON); }},
    {"Llama3", [] { return Tokenizer::load(LLAMA3_TOKENIZER_JSON); }},
    {"PrependAndReplace",
     [] {
       return sentencepiece({{"/added_tokens", kMarkedTokens}});
     }},
    {"NoCuts",
     [] {
       return sentencepiece(
           {{"/model/vocab/e\u2581", "363"}, {"/model/merges/0", R"("e \u2581")"}});
     }},
    {"Metaspace",
     [] {
       return sentencepiece(
           {{"/normalizer", "null"}, {"/pre_tokenizer", metaspace("always", "true")}});
     }},
    {"MetaspaceFirst",
     [] {
       return sentencepiece({{"/normalizer", R"({"type": "NFC"})"},
                             {"/pre_tokenizer", metaspace("first", "false")},
                             {"/added_tokens", kMarkedTokens}});
     }},
    {"MetaspaceNever",
     [] {
       return sentencepiece({{"/normalizer", "null"},
                             {"/model/byte_fallback", "false"},
                             {"/pre_tokenizer", metaspace("never", "true")}});
     }},
    {"ReplaceSeveral",
     [] {
       return sentencepiece(
           {{"/normalizer",
             R"({"type": "Replace", "pattern": {"String": "  "}, "content": "a b"})"}});
     }},
});

/// The number of ids before the middle.
size_t head_of(const RerankPrompt& prompt, const Tokenizer& tokenizer) {
  const size_t tail = tokenizer
                          .encode("<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
                                  {.add_special_tokens = false})
                          .size();
  return prompt.fixed_tokens() - tail;
}

std::string normalized(const std::string& text) {
  static const UnicodeNormalizer normalizer;
  std::string buffer;
  return std::string(normalizer.normalize(text, buffer));
}

class AnyTokenizer : public testing::TestWithParam<NamedTokenizer> {
 protected:
  EncodeOptions random_options() {
    return {.add_special_tokens = below(random_, 2) == 0,
            .match_added_tokens = below(random_, 2) == 0,
            .first_window = 0};
  }

  /// Compares with all ids of `text`, of which those behind the first `limit` are taken out.
  void expect_first_ids(const std::string& text, size_t limit, const EncodeOptions& options) {
    Ids expected = tokenizer_.encode(text, options);
    const bool special = options.add_special_tokens;
    const size_t before = special ? tokenizer_.prefix_tokens().size() : 0;
    const size_t behind = special ? tokenizer_.suffix_tokens().size() : 0;
    const size_t own = expected.size() - before - behind;
    const size_t kept = std::min(limit, own);
    expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(before + kept),
                   expected.end() - static_cast<std::ptrdiff_t>(behind));
    const auto encoded = tokenizer_.encode_up_to(text, limit, options);
    EXPECT_EQ(encoded.ids, expected)
        << limit << " of " << own << ", window " << options.first_window << ": " << text;
    EXPECT_EQ(encoded.cut, limit < own) << limit << " of " << own << ": " << text;
  }

  const Tokenizer tokenizer_ = GetParam().make();
  std::mt19937 random_{4};
};

/// With byte-level vocabularies and the chat tokens of RerankPrompt.
class QwenLikeTokenizer : public AnyTokenizer {};

TEST_P(AnyTokenizer, GivesTheFirstIdsOfATextThatIsCut) {
  for (int i = 0; i < 1000 && !HasFailure(); ++i) {
    const size_t parts = below(random_, 10) == 0 ? below(random_, 3000) : below(random_, 100);
    const std::string text = random_text(random_, parts, below(random_, 2) == 0);
    const EncodeOptions options = random_options();
    const size_t own = tokenizer_.encode(text, options).size();
    std::vector<size_t> limits = {0, own - std::min<size_t>(own, 1), own, Tokenizer::kAllIds};
    for (int k = 0; k < 6; ++k) limits.push_back(below(random_, own + 2));
    for (int k = 0; k < 6; ++k) limits.push_back(below(random_, 300));
    for (const size_t limit : limits) expect_first_ids(text, limit, options);
  }
}

TEST_P(AnyTokenizer, GivesTheFirstIdsWhereverItsWindowEnds) {
  for (int i = 0; i < 400 && !HasFailure(); ++i) {
    const std::string text = random_text(random_, below(random_, 8), below(random_, 2) == 0);
    if (text.size() > 100) continue;  // the number of cases grows with its square
    EncodeOptions options = random_options();
    const size_t own = tokenizer_.encode(text, options).size();
    for (options.first_window = 1; options.first_window < text.size(); ++options.first_window) {
      for (size_t limit = 0; limit <= own; ++limit) expect_first_ids(text, limit, options);
    }
  }
}

TEST_P(AnyTokenizer, GivesWhatABeginningSharesWithAllThatFollows) {
  for (int i = 0; i < 10'000; ++i) {
    const std::string beginning = random_text(random_, below(random_, 12), below(random_, 2) == 0);
    const auto [ids, rest] = tokenizer_.encode_beginning(beginning);
    for (int k = 0; k < 3; ++k) {
      const std::string more = random_text(random_, below(random_, 5), below(random_, 2) == 0);
      Ids joined = ids;
      const Ids behind = tokenizer_.encode(rest + more, kPlain);
      joined.insert(joined.end(), behind.begin(), behind.end());
      ASSERT_EQ(joined, tokenizer_.encode(beginning + more, kPlain)) << beginning << " | " << more;
    }
  }
}

TEST_P(QwenLikeTokenizer, GivesRerankPromptsTheIdsOfTheWholeMiddle) {
  const RerankPrompt prompt(tokenizer_);
  const size_t head = head_of(prompt, tokenizer_);
  for (int i = 0; i < 2000; ++i) {
    const bool broken = below(random_, 2) == 0;
    const std::string instruction = random_text(random_, below(random_, 6), broken);
    const std::string query = random_text(random_, below(random_, 6), broken);
    const auto shared = prompt.prepare(instruction, query, 1U << 20U);
    ASSERT_EQ(prompt.prepare(std::nullopt, query, 1U << 20U).ids,
              prompt.prepare(kDefaultRerankInstruction, query, 1U << 20U).ids);
    for (int k = 0; k < 4; ++k) {
      const std::string document = random_text(random_, below(random_, 40), broken);
      const Ids middle = tokenizer_.encode(
          "<Instruct>: " + instruction + "\n<Query>: " + query + "\n<Document>: " + document,
          kPlain);
      const size_t room = below(random_, middle.size() + 20);
      const auto encoded = prompt.encode(shared, document, prompt.fixed_tokens() + room);
      const size_t kept = std::min(room, middle.size());
      ASSERT_EQ(encoded.truncated, room < middle.size());
      ASSERT_EQ(encoded.ids.size(), prompt.fixed_tokens() + kept);
      const Ids got(encoded.ids.begin() + static_cast<std::ptrdiff_t>(head),
                    encoded.ids.begin() + static_cast<std::ptrdiff_t>(head + kept));
      ASSERT_EQ(got, Ids(middle.begin(), middle.begin() + static_cast<std::ptrdiff_t>(kept)))
          << instruction << " | " << query << " | " << document;
    }
  }
}

/// Every byte of the text belongs to a token, in order; ranges are whole characters.
void expect_offsets_cover(const std::vector<TokenWithOffsets>& tokens, const std::string& text,
                          bool ends_in_order) {
  std::vector<bool> boundaries(text.size() + 1);
  for (size_t at = 0; at < text.size(); at += decode_utf8(text, at).length) boundaries[at] = true;
  boundaries[text.size()] = true;
  size_t begin = 0, covered = 0;
  for (const auto& token : tokens) {
    ASSERT_LE(token.begin, token.end) << text;
    ASSERT_LE(token.end, text.size()) << text;
    ASSERT_LE(begin, token.begin) << text;
    ASSERT_LE(token.begin, covered) << text << ": a gap";
    ASSERT_EQ(token.begin == token.end, token.special) << text;
    ASSERT_TRUE(!ends_in_order || covered <= token.end) << text;
    ASSERT_TRUE(boundaries[token.begin] && boundaries[token.end]) << text;
    begin = token.begin;
    covered = std::max(covered, token.end);
  }
  ASSERT_EQ(covered, text.size()) << text;
}

TEST_P(AnyTokenizer, GivesOffsetsWithTheIdsOfEncode) {
  const bool strips = std::string_view(GetParam().name) == "StrippingTokens";
  for (int i = 0; i < 5000 && !HasFatalFailure(); ++i) {
    const size_t parts = below(random_, 100) == 0 ? below(random_, 3000) : below(random_, 30);
    const std::string text = random_text(random_, parts, below(random_, 2) == 0);
    const EncodeOptions options = random_options();
    const auto tokens = tokenizer_.encode_with_offsets(text, options);
    Ids ids;
    size_t special = 0;
    for (const auto& token : tokens) {
      ids.push_back(token.id);
      special += token.special ? 1 : 0;
    }
    ASSERT_EQ(ids, tokenizer_.encode(text, options)) << text;
    const size_t around = tokenizer_.prefix_tokens().size() + tokenizer_.suffix_tokens().size();
    ASSERT_EQ(special, options.add_special_tokens ? around : 0u);
    expect_offsets_cover(tokens, text, !strips);
  }
}

/// Of a text that is normalized already, tokens without their partial characters are its stretches.
TEST_P(QwenLikeTokenizer, GivesTokensTheStretchesOfTextThatTheySpell) {
  for (int i = 0; i < 3000; ++i) {
    const std::string text = normalized(random_text(random_, below(random_, 30), false));
    for (const auto& token : tokenizer_.encode_with_offsets(text, kPlain)) {
      const std::string bytes = tokenizer_.token_bytes(token.id);
      const auto stretch = std::string_view(text).substr(token.begin, token.end - token.begin);
      const bool has_prefix_space = bytes.front() == ' ' && stretch.front() != ' ';
      const auto spelled = std::string_view(bytes).substr(has_prefix_space ? 1 : 0);
      ASSERT_NE(stretch.find(spelled), stretch.npos) << text << ": " << spelled;
      ASSERT_LE(stretch.size() - spelled.size(), 6u) << text << ": " << spelled;
    }
  }
}

TEST_P(QwenLikeTokenizer, DecodesWhatItEncodedToTheNormalizedText) {
  const std::string name = GetParam().name;
  const bool normalizes = name != "NoNormalizer";
  // Where spaces were put between words, the spaces of the text are among them.
  const bool exact = tokenizer_.decode(tokenizer_.encode("a,b", kPlain), false) == "a,b";
  const auto without_spaces = [](std::string text) {
    std::erase(text, ' ');
    return text;
  };
  for (int i = 0; i < 3000; ++i) {
    const bool broken = below(random_, 2) == 0;
    const std::string text = random_text(random_, below(random_, 40), broken);
    const std::string valid = replace_invalid_utf8(text);
    const std::string expected = normalizes ? normalized(valid) : valid;
    const std::string decoded = tokenizer_.decode(tokenizer_.encode(text, kPlain), true);
    if (exact) {
      ASSERT_EQ(decoded, expected);
    } else {
      ASSERT_EQ(without_spaces(decoded), without_spaces(expected));
    }
  }
}

TEST_P(QwenLikeTokenizer, DecodesAnyIds) {
  const Ids around = {0, UINT32_MAX, static_cast<uint32_t>(tokenizer_.id_count())};
  for (int i = 0; i < 1000; ++i) {
    Ids ids(below(random_, 20));
    for (uint32_t& id : ids) {
      id = below(random_, 20) == 0 ? around[below(random_, around.size())]
                                   : static_cast<uint32_t>(below(random_, tokenizer_.id_count()));
    }
    const std::string all = tokenizer_.decode(ids, false);
    ASSERT_TRUE(is_valid_utf8(all));
    std::erase_if(ids, [&](uint32_t id) { return tokenizer_.is_special(id); });
    ASSERT_EQ(tokenizer_.decode(ids, false), tokenizer_.decode(ids, true));
    std::string bytes;
    for (const uint32_t id : ids) bytes += tokenizer_.token_bytes(id);
    ASSERT_EQ(tokenizer_.decode(ids, true), replace_invalid_utf8(bytes));
  }
}

const auto kName = [](const auto& param) { return std::string(param.param.name); };
INSTANTIATE_TEST_SUITE_P(, AnyTokenizer, testing::ValuesIn(kTokenizers), kName);
INSTANTIATE_TEST_SUITE_P(, QwenLikeTokenizer, testing::ValuesIn(kTokenizers), kName);
INSTANTIATE_TEST_SUITE_P(Other, AnyTokenizer, testing::ValuesIn(kOtherFamilies), kName);

}  // namespace
}  // namespace espalier::text
