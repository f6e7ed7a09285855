// The mini model's golden.json: ids that Hugging Face's tokenizer gave.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/text/small_tokenizer.h"
#include "text/rerank_prompt.h"

namespace espalier::text {
namespace {

using Ids = std::vector<uint32_t>;

nlohmann::json golden() {
  return nlohmann::json::parse(std::ifstream(ESPALIER_MINI_MODEL "/golden.json"));
}

TEST(GoldenIds, EveryEmbeddingInputGivesItsIds) {
  const auto cases = golden().at("embeddings");
  ASSERT_EQ(cases.size(), 12u);
  for (const auto& item : cases) {
    const std::string input = item.at("input");
    EXPECT_EQ(mini_tokenizer().encode(input), item.at("ids").get<Ids>()) << input;
  }
}

TEST(GoldenIds, EveryRerankPromptGivesItsIds) {
  const RerankPrompt prompt(mini_tokenizer());
  const auto cases = golden().at("rerank");
  ASSERT_EQ(cases.size(), 6u);
  for (const auto& item : cases) {
    const std::string instruction = item.at("instruction"), query = item.at("query"),
                      document = item.at("document"), whole = item.at("prompt");
    const auto encoded = prompt.encode(instruction, query, document, 8192);
    EXPECT_EQ(encoded.ids, item.at("ids").get<Ids>()) << whole;
    EXPECT_FALSE(encoded.truncated);
    EXPECT_EQ(mini_tokenizer().encode(whole, {.add_special_tokens = false}),
              item.at("ids").get<Ids>());
  }
}

}  // namespace
}  // namespace espalier::text
