#include "text/bpe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "tests/unit/text/small_tokenizer.h"
#include "text/byte_level.h"

namespace espalier::text {
namespace {

constexpr auto kLetters = std::to_array<std::string_view>({"a", "b", "c", "d"});
/// Of one to four bytes, alike in some of them.
constexpr auto kCharacters = std::to_array<std::string_view>(
    {"a", "b", "\u00E9", "\u00EA", "\u4E2D", "\u4E2E", "\u6E2D", "\U0001F600"});

/// Random merges of `bytes` and what they make: later ones may build on earlier ones. Ids of bytes
/// are their values. In order, what is merged ranks behind what makes it, as in trained
/// vocabularies.
BpeSpec random_spec(std::mt19937& random, std::string_view bytes, int merges, bool in_order) {
  BpeSpec spec;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const char raw = static_cast<char>(byte);
    spec.vocabulary.emplace(to_byte_level({&raw, 1}), byte);
  }
  std::vector<std::string> parts;
  for (const char byte : bytes) parts.emplace_back(1, byte);
  for (int i = 0; i < merges; ++i) {
    const std::string left = parts[random() % parts.size()], right = parts[random() % parts.size()];
    const auto [entry, added] = spec.vocabulary.emplace(
        to_byte_level(left + right), static_cast<uint32_t>(spec.vocabulary.size()));
    if (added) parts.push_back(left + right);
    spec.merges.push_back({spec.vocabulary.at(to_byte_level(left)),
                           spec.vocabulary.at(to_byte_level(right)), entry->second});
  }
  if (!in_order) std::shuffle(spec.merges.begin(), spec.merges.end(), random);
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

/// Words of random length from `alphabet`.
template <size_t kSize>
void expect_naive_ids(const BpeSpec& spec, const std::array<std::string_view, kSize>& alphabet,
                      size_t length_max, std::mt19937& random) {
  const BpeModel model(spec);
  BpeScratch scratch;
  for (int i = 0; i < 40; ++i) {
    std::string word;
    for (size_t length = 1 + random() % length_max; length-- > 0;) {
      word += alphabet[random() % alphabet.size()];
    }
    std::vector<uint32_t> ids;
    model.append_ids(word, scratch, ids);
    ASSERT_EQ(ids, merge_naively(spec, word)) << word;
  }
}

TEST(Bpe, RandomWordsMergeAsTheDefinitionSays) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    expect_naive_ids(random_spec(random, "abcd", 40, false), kLetters, 40, random);
  }
}

TEST(Bpe, LongWordsMergeAsShortOnes) {
  std::mt19937 random(8);
  for (int round = 0; round < 5; ++round) {
    expect_naive_ids(random_spec(random, "abcd", 40, false), kLetters, 300, random);
  }
}

/// First merges that complete characters, so that many merge to one id before anything else does.
void put_character_merges_first(BpeSpec& spec, std::mt19937& random) {
  std::vector<Merge> first;
  for (const std::string_view character : kCharacters) {
    if (random() % 4 == 0) continue;
    for (size_t size = 2; size <= character.size(); ++size) {
      const auto id = [&](std::string_view bytes) {
        const auto next = static_cast<uint32_t>(spec.vocabulary.size());
        return spec.vocabulary.emplace(to_byte_level(bytes), next).first->second;
      };
      first.push_back({id(character.substr(0, size - 1)), id(character.substr(size - 1, 1)),
                       id(character.substr(0, size))});
    }
  }
  const auto at = static_cast<std::ptrdiff_t>(random() % (spec.merges.size() / 2));
  spec.merges.insert(spec.merges.begin() + at, first.begin(), first.end());
}

TEST(Bpe, RandomCharactersMergeAsTheDefinitionSays) {
  std::mt19937 random(9);
  std::string bytes;
  for (const std::string_view character : kCharacters) bytes += character;
  for (int round = 0; round < 3000; ++round) {
    BpeSpec spec = random_spec(random, bytes, 60, round % 2 == 0);
    if (round % 3 != 0) put_character_merges_first(spec, random);
    expect_naive_ids(spec, kCharacters, 12, random);
    if (HasFatalFailure()) return;
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
