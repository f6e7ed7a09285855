#include "server/service/request_trie.h"

#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>

#include "fake_model.h"
#include "server/api/trie_json.h"

namespace espalier::server {
namespace {

using nlohmann::json;
using testing::EndsWith;
using testing::HasSubstr;
using Sequences = std::vector<std::vector<uint32_t>>;

RequestTrie trie_of(const Sequences& sequences) {
  return request_trie(sequences, mini_tokenizer());
}

/// Preorder, parents before children, positions that follow on, rows that add up.
void expect_consistent(const RequestTrie& trie) {
  size_t rows = 0;
  for (size_t n = 0; n < trie.nodes.size(); ++n) {
    const auto& node = trie.nodes[n];
    EXPECT_GE(node.tokens, 1U);
    EXPECT_GE(node.inputs, 1U);
    rows += node.tokens;
    if (node.parent) {
      ASSERT_LT(*node.parent, n);
      const auto& parent = trie.nodes[*node.parent];
      EXPECT_EQ(node.position, parent.position + parent.tokens);
      EXPECT_LE(node.inputs, parent.inputs);
    } else {
      EXPECT_EQ(node.position, 0U);
    }
    EXPECT_TRUE(json::accept(json(node.text).dump()));  // throws for what is no UTF-8
  }
  if (trie.hidden_nodes == 0) {
    EXPECT_EQ(rows, trie.rows);
  } else {
    EXPECT_LT(rows, trie.rows);
  }
}

TEST(RequestTries, SplitWhereInputsPart) {
  const auto& tokenizer = mini_tokenizer();
  const Sequences sequences{tokenizer.encode("the mail boat came in winter"),
                            tokenizer.encode("the mail boat sank"), tokenizer.encode("salt")};
  const auto trie = trie_of(sequences);
  expect_consistent(trie);
  EXPECT_EQ(trie.inputs, 3U);
  EXPECT_EQ(trie.tokens, sequences[0].size() + sequences[1].size() + sequences[2].size());
  ASSERT_EQ(trie.nodes.size(), 4U);
  std::map<std::string, RequestTrie::Node> by_text;
  for (const auto& node : trie.nodes) by_text[node.text] = node;
  const auto& shared = by_text.at("the mail boat");
  EXPECT_EQ(shared.inputs, 2U);
  EXPECT_FALSE(shared.parent);
  EXPECT_FALSE(by_text.at("salt<|endoftext|>").parent);
  for (const char* text : {" came in winter<|endoftext|>", " sank<|endoftext|>"}) {
    ASSERT_TRUE(by_text.at(text).parent) << text;
    EXPECT_EQ(trie.nodes[*by_text.at(text).parent].text, "the mail boat");
    EXPECT_EQ(by_text.at(text).inputs, 1U);
  }
  EXPECT_EQ(trie.rows, trie.tokens - shared.tokens);
}

TEST(RequestTries, EqualInputsAreOneNode) {
  const auto trie = trie_of({{1, 2, 3}, {1, 2, 3}, {1, 2}});
  expect_consistent(trie);
  EXPECT_EQ(trie.rows, 3U);
  EXPECT_EQ(trie.nodes[0].inputs, 3U);
}

TEST(RequestTries, TextsAreCutInTheMiddleBetweenCharacters) {
  // Characters of three bytes, of several tokens each: neither bytes nor tokens end with them.
  std::string text;
  for (int i = 0; i < 60; ++i) text += "今日は";
  for (size_t shift = 0; shift < 4; ++shift) {
    const auto trie = trie_of({mini_tokenizer().encode(std::string(shift, 'a') + text)});
    expect_consistent(trie);
    ASSERT_EQ(trie.nodes.size(), 1U);
    const std::string& shown = trie.nodes[0].text;
    EXPECT_THAT(shown, HasSubstr(" … "));
    EXPECT_THAT(shown, testing::StartsWith(std::string(shift, 'a') + "今日は"));
    EXPECT_THAT(shown, EndsWith("今日は<|endoftext|>"));
    EXPECT_THAT(shown, testing::Not(HasSubstr("\uFFFD")));
    EXPECT_LE(shown.size(), 240 + std::string_view(" … ").size());
  }
}

TEST(RequestTries, NodesThatBeginInACharacterAreValidUtf8) {
  // Two characters whose bytes are tokens of their own part after the first bytes.
  const auto& tokenizer = mini_tokenizer();
  const Sequences sequences{tokenizer.encode("\U0001FAE0"), tokenizer.encode("\U0001FAE1")};
  const auto trie = trie_of(sequences);
  expect_consistent(trie);
  EXPECT_EQ(trie.nodes.size(), 3U);
}

TEST(RequestTries, IdsOfNothingHaveNoText) {
  const auto trie = trie_of({{4'000'000'000, 1, 8191}, {4'000'000'000, 2}});
  expect_consistent(trie);
  EXPECT_EQ(trie.nodes[0].text, "");
}

TEST(RequestTries, HaveAThousandNodesAtMost) {
  Sequences sequences;
  for (uint32_t i = 0; i < 3000; ++i) sequences.push_back({i % 30, i, 7});
  const auto trie = trie_of(sequences);
  expect_consistent(trie);
  EXPECT_EQ(trie.nodes.size(), 1000U);
  EXPECT_EQ(trie.inputs, 3000U);
  EXPECT_EQ(trie.nodes.size() + trie.hidden_nodes, 3030U);
}

TEST(RequestTries, LongChainsNeedNoStack) {
  // Each input leaves the trunk one token after the one before it: 2 000 nodes below each other.
  Sequences branches;
  std::vector<uint32_t> trunk;
  for (uint32_t i = 0; i < 2000; ++i) {
    branches.push_back(trunk);
    branches.back().push_back(8000);
    trunk.push_back(i);
  }
  branches.push_back(trunk);
  const auto tree = trie_of(branches);
  expect_consistent(tree);
  EXPECT_EQ(tree.rows, 4000U);
  EXPECT_EQ(tree.nodes.size(), 1000U);
  EXPECT_EQ(tree.hidden_nodes, 3000U);
  const auto chain = trie_of({std::vector<uint32_t>(100'000, 5), std::vector<uint32_t>(99'999, 5)});
  expect_consistent(chain);
  EXPECT_EQ(chain.rows, 100'000U);
  EXPECT_LE(chain.nodes.size(), 2U);
}

TEST(RequestTries, AreAMemberOfAnswers) {
  std::string out;
  append_trie_member(std::nullopt, out);
  EXPECT_EQ(out, "");
  append_trie_member(trie_of({{5, 6, 7}, {5, 6}}), out);
  const json trie = json::parse("{\"x\":0" + out + "}")["trie"];
  EXPECT_EQ(trie["inputs"], 2);
  EXPECT_EQ(trie["tokens"], 5);
  EXPECT_EQ(trie["rows"], 3);
  EXPECT_EQ(trie["hidden_nodes"], 0);
  EXPECT_TRUE(trie["nodes"][0]["parent"].is_null());
  EXPECT_EQ(trie["nodes"].back()["tokens"].get<int>() + trie["nodes"].back()["position"].get<int>(),
            3);
}

}  // namespace
}  // namespace espalier::server
