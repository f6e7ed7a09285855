#include "text/tokenizer_json.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "tests/unit/text/small_tokenizer.h"

namespace espalier::text {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string refusal_of(std::string_view bytes) {
  try {
    parse_tokenizer_json(bytes, "dir/tokenizer.json");
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

struct Refusal {
  std::vector<Change> changes;
  const char* key;
  const char* reason;
};

class RefusedTokenizer : public testing::TestWithParam<Refusal> {};

TEST_P(RefusedTokenizer, IsRefusedWithFileKeyAndReason) {
  const auto& [changes, key, reason] = GetParam();
  EXPECT_THAT(
      refusal_of(changed_tokenizer_json(changes)),
      AllOf(StartsWith("dir/tokenizer.json: " + std::string(key) + ": "), HasSubstr(reason)));
}

constexpr const char* kTemplate = R"({"type": "TemplateProcessing", "single": [
  {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<e>", "type_id": 0}}],
  "special_tokens": {"<e>": {"id": "<e>", "ids": [7], "tokens": ["<e>"]}}})";

INSTANTIATE_TEST_SUITE_P(
    Model, RefusedTokenizer,
    testing::Values(
        Refusal{{{"/version", "\"2.0\""}}, "version", "1.0"},
        Refusal{{{"/model", "remove"}}, "model", "missing"},
        Refusal{{{"/model", "null"}}, "model", "missing"},
        Refusal{{{"/model", "[]"}}, "model", "object"},
        Refusal{{{"/model/type", "\"WordPiece\""}}, "model.type", "WordPiece"},
        Refusal{{{"/model/dropout", "0.1"}}, "model.dropout", "random"},
        Refusal{{{"/model/dropout", "\"no\""}}, "model.dropout", "random"},
        Refusal{{{"/model/continuing_subword_prefix", "\"##\""}},
                "model.continuing_subword_prefix",
                "not supported"},
        Refusal{{{"/model/end_of_word_suffix", "\"</w>\""}},
                "model.end_of_word_suffix",
                "not supported"},
        Refusal{{{"/model/ignore_merges", "1"}}, "model.ignore_merges", "true or false"},
        Refusal{{{"/model/vocab", "remove"}}, "model.vocab", "missing"},
        Refusal{{{"/model/vocab", "[]"}}, "model.vocab", "object"},
        Refusal{{{"/model/vocab/a", "-1"}}, "model.vocab", "\"a\""},
        Refusal{{{"/model/vocab/a", "1.5"}}, "model.vocab", "\"a\""},
        Refusal{{{"/model/vocab/a", "2147483648"}}, "model.vocab", "2147483647"},
        Refusal{{{"/model/vocab/a", "98"}}, "model.vocab", "two entries have the id 98"},
        Refusal{{{"/model/vocab/\u0120", "remove"}}, "model.vocab", "byte 32"},
        Refusal{{{"/model/merges", "remove"}}, "model.merges", "missing"},
        Refusal{{{"/model/merges", "{}"}}, "model.merges", "array"},
        Refusal{{{"/model/merges", R"(["a"])"}}, "model.merges", "merge 0"},
        Refusal{{{"/model/merges", R"(["a b c"])"}}, "model.merges", "merge 0"},
        Refusal{{{"/model/merges", R"([["a", 1]])"}}, "model.merges", "merge 0"},
        Refusal{{{"/model/merges", R"([["a", "b", "c"]])"}}, "model.merges", "merge 0"},
        Refusal{{{"/model/merges", R"(["a b"])"}}, "model.merges", "merge 0 needs \"ab\""}));

INSTANTIATE_TEST_SUITE_P(
    Components, RefusedTokenizer,
    testing::Values(
        Refusal{{{"/normalizer", R"({"type": "NFKC"})"}}, "normalizer", "NFKC"},
        Refusal{{{"/normalizer", R"({"type": "Prepend", "prepend": "more than 16 bytes"})"}},
                "normalizer.prepend",
                "16 bytes"},
        Refusal{
            {{"/normalizer", R"({"type": "Replace", "pattern": {"Regex": " +"}, "content": " "})"}},
            "normalizer.pattern",
            "Regex"},
        Refusal{
            {{"/normalizer", R"({"type": "Replace", "pattern": {"String": ""}, "content": " "})"}},
            "normalizer.pattern",
            "empty"},
        Refusal{
            {{"/normalizer", R"({"type": "Replace", "pattern": {"String": " "}, "content": ""})"}},
            "normalizer",
            "deletes"},
        Refusal{
            {{"/normalizer",
              R"({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]})"}},
            "normalizer.normalizers[1]",
            "Lowercase"},
        Refusal{{{"/normalizer", R"({"kind": "NFC"})"}}, "normalizer.type", "missing"},
        Refusal{{{"/pre_tokenizer", "null"}}, "model", "would vanish"},
        Refusal{{{"/pre_tokenizer", "null"}, {"/model/unk_token", "\"<unk>\""}},
                "model.unk_token",
                "in model.vocab"},
        Refusal{{{"/pre_tokenizer", "null"}, {"/model/byte_fallback", "true"}},
                "model",
                "<0x00> to <0xFF>"},
        Refusal{{{"/pre_tokenizer", R"({"type": "Whitespace"})"}}, "pre_tokenizer", "Whitespace"},
        Refusal{{{"/pre_tokenizer", R"({"type": "Metaspace"})"}},
                "pre_tokenizer.replacement",
                "missing"},
        Refusal{{{"/pre_tokenizer", R"({"type": "Metaspace", "replacement": "__"})"}},
                "pre_tokenizer.replacement",
                "one character"},
        Refusal{{{"/pre_tokenizer",
                  R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"})"}},
                "pre_tokenizer.prepend_scheme",
                "last"},
        Refusal{{{"/pre_tokenizer", R"({"type": "Metaspace", "replacement": "_",
                  "prepend_scheme": "first", "add_prefix_space": false})"}},
                "pre_tokenizer.add_prefix_space",
                "does not agree"},
        Refusal{
            {{"/pre_tokenizer/pretokenizers/1", R"({"type": "Metaspace", "replacement": "_"})"}},
            "pre_tokenizer.pretokenizers[1]",
            "together with other"},
        Refusal{{{"/pre_tokenizer/pretokenizers/1", R"({"type": "Digits"})"}},
                "pre_tokenizer.pretokenizers[1]",
                "Digits"},
        Refusal{{{"/pre_tokenizer/pretokenizers", "[]"}}, "model", "ByteLevel"},
        Refusal{{{"/pre_tokenizer/pretokenizers/2", R"({"type": "ByteLevel"})"}},
                "pre_tokenizer.pretokenizers[2]",
                "nothing may follow ByteLevel"},
        Refusal{{{"/pre_tokenizer/pretokenizers/0/behavior", "\"Removed\""}},
                "pre_tokenizer.pretokenizers[0].behavior",
                "Removed"},
        Refusal{{{"/pre_tokenizer/pretokenizers/0/pattern", "{}"}},
                "pre_tokenizer.pretokenizers[0].pattern.String",
                "missing"},
        Refusal{{{"/pre_tokenizer/pretokenizers/0/pattern/Regex", R"("a\\w")"}},
                "pre_tokenizer.pretokenizers[0].pattern",
                R"(\w)"},
        Refusal{{{"/pre_tokenizer/pretokenizers/0/pattern/Regex", "\"(?<=a+)b\""}},
                "pre_tokenizer.pretokenizers[0].pattern",
                "PCRE2 cannot compile"},
        Refusal{{{"/post_processor", R"({"type": "BertProcessing"})"}},
                "post_processor",
                "BertProcessing"},
        Refusal{{{"/post_processor", kTemplate}, {"/post_processor/single/0/Sequence/id", "\"B\""}},
                "post_processor.single[0].Sequence",
                "sequence A"},
        Refusal{{{"/post_processor", kTemplate}, {"/post_processor/single/0", "remove"}},
                "post_processor.single",
                "missing"},
        Refusal{{{"/post_processor", kTemplate},
                 {"/post_processor/single/2", R"({"Sequence": {"id": "A", "type_id": 0}})"}},
                "post_processor.single[2]",
                "repeated"},
        Refusal{{{"/post_processor", kTemplate}, {"/post_processor/special_tokens", "{}"}},
                "post_processor.special_tokens",
                "\"<e>\""},
        Refusal{
            {{"/post_processor", kTemplate}, {"/post_processor/special_tokens/<e>/ids", "[256]"}},
            "post_processor",
            "id 256"},
        Refusal{{{"/post_processor", kTemplate},
                 {"/post_processor/special_tokens/<e>/ids", R"(["7"])"}},
                "post_processor.special_tokens.<e>.ids[0]",
                "token id"},
        Refusal{{{"/post_processor", std::string(R"({"type": "Sequence", "processors": [)") +
                                         kTemplate + "," + kTemplate + "]}"}},
                "post_processor.processors[1]",
                "second TemplateProcessing"}));

std::string added(const std::string& fields) { return "[{" + fields + "}]"; }

INSTANTIATE_TEST_SUITE_P(
    AddedTokens, RefusedTokenizer,
    testing::Values(
        Refusal{{{"/added_tokens", "{}"}}, "added_tokens", "array"},
        Refusal{{{"/added_tokens", added(R"("id": 256)")}}, "added_tokens[0].content", "missing"},
        Refusal{{{"/added_tokens", added(R"("content": "<x>")")}}, "added_tokens[0].id", "missing"},
        Refusal{{{"/added_tokens", added(R"("content": "<x>", "id": "256")")}},
                "added_tokens[0].id",
                "token id"},
        Refusal{
            {{"/added_tokens", added(R"("content": "", "id": 256)")}}, "added_tokens[0]", "empty"},
        Refusal{{{"/added_tokens", added(R"("content": "<x>", "id": 256, "single_word": true)")}},
                "added_tokens[0]",
                "single_word"},
        Refusal{{{"/added_tokens", added(R"("content": "<x>", "id": 300)")}},
                "added_tokens[0]",
                "would number it 256"},
        Refusal{{{"/added_tokens", added(R"("content": "a", "id": 256)")}},
                "added_tokens[0]",
                "would number it 97"},
        Refusal{{{"/added_tokens",
                  R"([{"content": "<x>", "id": 256}, {"content": "<x>", "id": 256}])"}},
                "added_tokens[1]",
                "twice"},
        Refusal{{{"/added_tokens", R"([{"content": "A\u030A", "id": 256, "normalized": true},
                                       {"content": "\u00C5", "id": 257, "normalized": true}])"}},
                "added_tokens[1]",
                "the same as another when normalized"}));

TEST(TokenizerJson, WhatIsNoJsonIsRefused) {
  EXPECT_THAT(refusal_of(""), StartsWith("dir/tokenizer.json: is not valid JSON"));
  EXPECT_THAT(refusal_of("{\"a\": \xFF}"), StartsWith("dir/tokenizer.json: is not valid JSON"));
  EXPECT_THAT(refusal_of("[]"), StartsWith("dir/tokenizer.json: expected an object"));
}

TEST(TokenizerJson, DeepNestingIsRefusedWithoutRecursion) {
  EXPECT_THAT(refusal_of(std::string(1'000'000, '[')), HasSubstr("not valid JSON"));
  std::string nested = R"({"type": "NFC"})";
  for (int i = 0; i < 1000; ++i) {
    nested = R"({"type": "Sequence", "normalizers": [)" + nested + "]}";
  }
  EXPECT_THAT(refusal_of(changed_tokenizer_json({{"/normalizer", nested}})),
              HasSubstr("nested too deeply"));
}

TEST(TokenizerJson, AMissingFileAndAFolderAreRefusedByName) {
  const std::filesystem::path folder = testing::TempDir();
  EXPECT_THROW(
      {
        try {
          read_tokenizer_json(folder / "no-such-tokenizer.json");
        } catch (const std::runtime_error& error) {
          EXPECT_THAT(error.what(), HasSubstr("no-such-tokenizer.json: cannot be read"));
          throw;
        }
      },
      std::runtime_error);
  EXPECT_THROW(read_tokenizer_json(folder), std::runtime_error);
}

TEST(TokenizerJson, AFileIsReadAsItsBytesAre) {
  const auto path = std::filesystem::path(testing::TempDir()) / "espalier_small_tokenizer.json";
  std::ofstream(path, std::ios::binary) << small_tokenizer_json();
  EXPECT_EQ(read_tokenizer_json(path).model.vocabulary.size(), 256u);
  std::filesystem::remove(path);
}

TEST(TokenizerJson, LongAndUnprintableNamesAreShortenedInMessages) {
  const std::string message = refusal_of(changed_tokenizer_json(
      {{"/normalizer", R"({"type": "\u001b)" + std::string(5000, 'x') + "\"}"}}));
  EXPECT_THAT(message, HasSubstr(R"("\u001bxxx)"));
  EXPECT_LT(message.size(), 300u);
}

TEST(TokenizerJson, OptionsThatChangeNoIdsAreRead) {
  for (const Change& change :
       std::vector<Change>{{"/model/dropout", "0.0"},
                           {"/model/unk_token", "\"<unk>\""},
                           {"/model/byte_fallback", "true"},
                           {"/model/fuse_unk", "true"},
                           {"/model/type", "remove"},
                           {"/version", "remove"},
                           {"/added_tokens", "remove"},
                           {"/truncation", R"({"max_length": 2})"},
                           {"/padding", R"({"strategy": {"Fixed": 9}})"},
                           {"/pre_tokenizer/pretokenizers/0/invert", "true"}}) {
    EXPECT_EQ(small_tokenizer({change}).encode("some text"), byte_ids("some text"))
        << change.pointer;
  }
}

}  // namespace
}  // namespace espalier::text
