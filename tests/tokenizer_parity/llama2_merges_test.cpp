// Llama 2's tokenizer.json has the merges that Hugging Face's converter made of SentencePiece's
// scores. Those scores are minus the place of a piece in the order of training, which is the order
// of ids, but for runs of spaces, which were put in later with a score below all others.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "text/metaspace.h"
#include "text/sentencepiece_merges.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace espalier::text {
namespace {

constexpr size_t kFirstPiece = 259;  // behind <unk>, <s>, </s> and the 256 bytes

bool is_run_of_marks(std::string_view token) {
  while (token.starts_with(kSpaceMark)) token.remove_prefix(kSpaceMark.size());
  return token.empty();
}

struct Pieces {
  std::vector<std::string> tokens;
  std::vector<float> scores;
};

Pieces llama2_pieces(const TokenizerSpec& spec) {
  Pieces pieces;
  pieces.tokens.resize(count_ids(spec));
  for (const auto& [content, id] : spec.model.vocabulary) pieces.tokens[id] = content;
  for (size_t id = 0; id < pieces.tokens.size(); ++id) {
    const std::string& token = pieces.tokens[id];
    const bool run = is_run_of_marks(token) && token.size() > kSpaceMark.size();
    pieces.scores.push_back(id < kFirstPiece ? 0.0F
                            : run            ? -1e9F
                                             : -static_cast<float>(id - kFirstPiece));
  }
  return pieces;
}

TEST(Llama2, MergesMadeOfScoresAreThoseOfItsFile) {
  const TokenizerSpec spec = read_tokenizer_json(LLAMA2_TOKENIZER_JSON);
  const auto [tokens, scores] = llama2_pieces(spec);
  const std::vector<Merge> merges = sentencepiece_merges(tokens, scores);
  ASSERT_EQ(merges.size(), spec.model.merges.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    const Merge& want = spec.model.merges[i];
    ASSERT_TRUE(merges[i].left == want.left && merges[i].right == want.right &&
                merges[i].merged == want.merged)
        << i << ": " << tokens[merges[i].left] << " + " << tokens[merges[i].right] << ", not "
        << tokens[want.left] << " + " << tokens[want.right];
  }
}

/// As sentencepiece_merges.h says to, without the file's own components.
TEST(Llama2, ASpecWithoutJsonGivesTheSameIds) {
  const TokenizerSpec file = read_tokenizer_json(LLAMA2_TOKENIZER_JSON);
  const auto [tokens, scores] = llama2_pieces(file);
  TokenizerSpec spec;
  for (uint32_t id = 0; id < tokens.size(); ++id) spec.model.vocabulary.emplace(tokens[id], id);
  spec.model.merges = sentencepiece_merges(tokens, scores);
  spec.model.byte_level = false;
  spec.model.unknown = {.byte_fallback = true, .unk_id = 0, .fuse_unk = true};
  const std::string mark(kSpaceMark);
  std::vector<Normalizer::Step> steps;
  steps.emplace_back(PrependNormalizer{mark});
  steps.emplace_back(ReplaceNormalizer{" ", mark});
  spec.normalizer = Normalizer(std::move(steps));
  spec.decoder = Decoder(
      {ReplaceDecoder{mark, " "}, ByteFallbackDecoder{}, FuseDecoder{}, StripDecoder{" ", 1, 0}});
  for (uint32_t id = 0; id < 3; ++id) {
    AddedToken token{.content = tokens[id], .pattern = {}, .id = id, .special = true};
    set_pattern(token, spec.normalizer);
    spec.added_tokens.push_back(token);
  }
  spec.post_processor.prefix = {1};
  const auto made = Tokenizer::from_spec(std::move(spec), "made");
  const auto loaded = Tokenizer::load(LLAMA2_TOKENIZER_JSON);
  for (const char* text :
       {"", "The quick brown fox", "  two  spaces </s> and\n\nlines\t\u4E2D\u6587",
        "\u2581\u2581mark \U0001F600\U0001F9E6",
        "x"
        "\xFF"
        "y<unk><s>z"}) {
    EXPECT_EQ(made.encode(text), loaded.encode(text)) << text;
    EXPECT_EQ(made.decode(made.encode(text), false), loaded.decode(loaded.encode(text), false))
        << text;
  }
}

}  // namespace
}  // namespace espalier::text
