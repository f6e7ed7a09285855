#include "text/bpe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "tests/unit/text/small_tokenizer.h"
#include "text/byte_level.h"

namespace espalier::text {
namespace {

/// Random merges over the letters a to d: later ones may build on earlier ones. Ids of letters are
/// their bytes.
BpeSpec random_spec(std::mt19937& random) {
  BpeSpec spec;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const char raw = static_cast<char>(byte);
    spec.vocabulary.emplace(to_byte_level({&raw, 1}), byte);
  }
  std::vector<std::string> parts = {"a", "b", "c", "d"};
  for (int i = 0; i < 40; ++i) {
    const std::string left = parts[random() % parts.size()], right = parts[random() % parts.size()];
    const auto [entry, added] =
        spec.vocabulary.emplace(left + right, static_cast<uint32_t>(spec.vocabulary.size()));
    if (added) parts.push_back(left + right);
    spec.merges.push_back({spec.vocabulary.at(left), spec.vocabulary.at(right), entry->second});
  }
  std::shuffle(spec.merges.begin(), spec.merges.end(), random);
  return spec;
}

/// The definition: again and again, the leftmost of the adjacent pairs of lowest rank. Quadratic.
std::vector<uint32_t> merge_naively(const BpeSpec& spec, std::string_view word) {
  std::vector<uint32_t> ids = byte_ids(word);
  const auto rank_of = [&](size_t i) {
    for (size_t rank = spec.merges.size(); rank-- > 0;) {  // the last of equal pairs counts
      if (spec.merges[rank].left == ids[i] && spec.merges[rank].right == ids[i + 1]) return rank;
    }
    return spec.merges.size();
  };
  for (;;) {
    size_t best = 0, best_rank = spec.merges.size();
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      if (const size_t rank = rank_of(i); rank < best_rank) best = i, best_rank = rank;
    }
    if (best_rank == spec.merges.size()) return ids;
    ids[best] = spec.merges[best_rank].merged;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(Bpe, RandomWordsMergeAsTheDefinitionSays) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    const BpeSpec spec = random_spec(random);
    const BpeModel model(spec);
    BpeScratch scratch;
    for (int i = 0; i < 40; ++i) {
      std::string word;
      for (size_t length = 1 + random() % 40; word.size() < length;) {
        word += static_cast<char>('a' + random() % 4);
      }
      std::vector<uint32_t> ids;
      model.append_ids(word, scratch, ids);
      ASSERT_EQ(ids, merge_naively(spec, word)) << word;
    }
  }
}

TEST(Bpe, OfTheSamePairTheLastMergeCounts) {
  const auto tokenizer = small_tokenizer({{"/model/vocab/ab", "256"},
                                          {"/model/vocab/bc", "257"},
                                          {"/model/merges", R"(["a b", "b c", "a b"])"}});
  EXPECT_EQ(tokenizer.encode("abc"), (std::vector<uint32_t>{'a', 257}));
}

TEST(Bpe, MergesMayBePairsOrStringsWithAVersionLine) {
  for (const char* merges :
       {R"([["a", "b"], ["ab", "c"]])", R"(["#version: 0.2", "a b", "ab c"])"}) {
    const auto tokenizer = small_tokenizer(
        {{"/model/vocab/ab", "256"}, {"/model/vocab/abc", "257"}, {"/model/merges", merges}});
    EXPECT_EQ(tokenizer.encode("abcab"), (std::vector<uint32_t>{257, 256}));
  }
}

TEST(Bpe, IgnoreMergesTakesAWholeEntryBeforeMerging) {
  const std::vector<Change> vocabulary = {{"/model/vocab/ab", "256"},
                                          {"/model/vocab/bc", "257"},
                                          {"/model/vocab/abc", "258"},
                                          {"/model/merges", R"(["b c"])"}};
  EXPECT_EQ(small_tokenizer(vocabulary).encode("abc"), (std::vector<uint32_t>{'a', 257}));
  auto ignoring = vocabulary;
  ignoring.push_back({"/model/ignore_merges", "true"});
  const auto tokenizer = small_tokenizer(ignoring);
  EXPECT_EQ(tokenizer.encode("abc"), (std::vector<uint32_t>{258}));
  EXPECT_EQ(tokenizer.encode("abcd"), (std::vector<uint32_t>{'a', 257, 'd'}));
}

}  // namespace
}  // namespace espalier::text
