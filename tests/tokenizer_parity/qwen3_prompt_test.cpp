// Qwen3-Reranker's prompt with the real Qwen3 tokenizer: the ids that its model card's code gives.
#include <gtest/gtest.h>

#include "text/rerank_prompt.h"

namespace espalier::text {
namespace {

using Ids = std::vector<uint32_t>;

TEST(Qwen3Prompt, HeadIs39IdsAndTail9) {
  const auto tokenizer = Tokenizer::load(QWEN3_TOKENIZER_JSON);
  const RerankPrompt prompt(tokenizer);
  EXPECT_EQ(prompt.fixed_tokens(), 39u + 9u);

  const Ids ids = prompt
                      .encode(kDefaultRerankInstruction, "What is the capital of China?",
                              "The capital of China is Beijing.", 8192)
                      .ids;
  ASSERT_GT(ids.size(), 48u);
  EXPECT_EQ(Ids(ids.begin(), ids.begin() + 7), (Ids{151644, 8948, 198, 60256, 3425, 279, 11789}));
  EXPECT_EQ(Ids(ids.end() - 9, ids.end()),
            (Ids{151645, 198, 151644, 77091, 198, 151667, 271, 151668, 271}));
  // The middle starts right behind the head: "<", "Inst", … and nothing of it is a special token.
  EXPECT_EQ(ids[39], tokenizer.token_id("<"));
  for (size_t i = 39; i < ids.size() - 9; ++i) EXPECT_LT(ids[i], 151643u);
}

TEST(Qwen3Prompt, TheAnswersHaveTheIdsOfTheModelCard) {
  const auto tokenizer = Tokenizer::load(QWEN3_TOKENIZER_JSON);
  EXPECT_EQ(tokenizer.token_id("no"), 2152u);
  EXPECT_EQ(tokenizer.token_id("yes"), 9693u);
  EXPECT_EQ(tokenizer.id_count(), 151669u);
}

}  // namespace
}  // namespace espalier::text
