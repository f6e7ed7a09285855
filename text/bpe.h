// Byte-level byte pair encoding: the bytes of a pre-token, merged pair by pair in order of rank.
//
// Equal to Hugging Face's `BPE::merge_word` + `Word::merge_all` (tokenizers 0.22, models/bpe): of
// all adjacent pairs that have a merge, the one with the lowest rank is merged first, the leftmost
// among equals. What has the same result faster: words that become one id are looked up, merging
// starts with characters where that is proven, and a short word's pairs are searched for the lowest
// rank. In long ones a heap of candidates makes n bytes cost O(n log n).
//
// Thread contract: a BpeModel is immutable; each thread brings its own BpeScratch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/early_characters.h"
#include "text/merge_table.h"
#include "text/short_word_ids.h"

namespace espalier::text {

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};
/// Entries in the byte-level alphabet (see byte_level.h), by content.
using Vocabulary = std::unordered_map<std::string, uint32_t, StringHash, std::equal_to<>>;

struct BpeSpec {
  Vocabulary vocabulary;       // ids are unique, all 256 bytes have an entry
  std::vector<Merge> merges;   // of the same pair, the last one counts
  bool ignore_merges = false;  // a pre-token that is an entry as a whole is that entry
};

/// Buffers that are reused from word to word.
struct BpeScratch {
  struct Symbol {
    uint32_t id, previous, next;
  };
  std::vector<uint32_t> first_ids;  // what merging starts with
  std::vector<Symbol> symbols;
  std::vector<uint64_t> candidates;  // rank << 32 | position of the pair's left symbol; a min-heap
};

class BpeModel {
 public:
  explicit BpeModel(BpeSpec spec);

  /// Appends the ids of one pre-token, given as its raw bytes, which must be valid UTF-8.
  void append_ids(std::string_view word, BpeScratch& scratch, std::vector<uint32_t>& ids) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  BpeModel(BpeSpec& spec, const std::unordered_map<uint32_t, std::string>& raw_entries);
  void merge_word(std::string_view word, BpeScratch& scratch, std::vector<uint32_t>& ids) const;
  void merge_few(const std::vector<uint32_t>& first_ids, std::vector<uint32_t>& ids) const;
  void merge_many(BpeScratch& scratch, std::vector<uint32_t>& ids) const;
  void push_candidate(BpeScratch& scratch, uint32_t left, uint32_t right) const;

  Vocabulary vocabulary_;
  MergeTable merges_;
  std::array<uint32_t, 256> byte_ids_;
  bool ignore_merges_;
  bool few_ranks_;
  size_t longest_entry_bytes_ = 0;  // of its raw bytes, at most
  EarlyCharacters early_characters_;
  ShortWordIds whole_words_;  // that become one id
};

}  // namespace espalier::text
