// Byte-level byte pair encoding: the bytes of a pre-token, merged pair by pair in order of rank.
//
// Equal to Hugging Face's `BPE::merge_word` + `Word::merge_all` (tokenizers 0.22, models/bpe): of
// all adjacent pairs that have a merge, the one with the lowest rank is merged first, the leftmost
// among equals. The model is a function of the word, so the words that it makes one id are looked
// up; a short word's pairs are searched for the lowest rank; a heap of candidates makes a long word
// of n bytes cost O(n log n).
//
// Thread contract: a BpeModel is immutable; each thread brings its own BpeScratch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/short_word_ids.h"

namespace espalier::text {

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};
/// Entries in the byte-level alphabet (see byte_level.h), by content.
using Vocabulary = std::unordered_map<std::string, uint32_t, StringHash, std::equal_to<>>;

/// Ids of a pair and of the entry that it merges to. The rank is the position in the list.
struct Merge {
  uint32_t left, right, merged;
};

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
  std::vector<Symbol> symbols;
  std::vector<uint64_t> candidates;  // rank << 32 | position of the pair's left symbol; a min-heap
};

class BpeModel {
 public:
  explicit BpeModel(BpeSpec spec);

  /// Appends the ids of one pre-token, given as its raw bytes.
  void append_ids(std::string_view word, BpeScratch& scratch, std::vector<uint32_t>& ids) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  /// An open-addressing hash table from pairs of ids to merges: one cache line a lookup, nearly
  /// always.
  class MergeTable {
   public:
    struct Found {
      uint32_t rank, merged;
    };
    explicit MergeTable(const std::vector<Merge>& merges);
    const Found* find(uint32_t left, uint32_t right) const;

   private:
    struct Slot {
      uint64_t pair;
      Found found;
    };
    size_t slot_of(uint64_t pair) const;
    std::vector<Slot> slots_;  // a power of two, at most two thirds full
    int shift_;
  };

  void find_whole_words();
  void merge_short_word(std::string_view word, std::vector<uint32_t>& ids) const;
  void merge_long_word(std::string_view word, BpeScratch& scratch,
                       std::vector<uint32_t>& ids) const;
  void push_candidate(BpeScratch& scratch, uint32_t left, uint32_t right) const;

  Vocabulary vocabulary_;
  MergeTable merges_;
  std::array<uint32_t, 256> byte_ids_;
  bool ignore_merges_;
  size_t longest_entry_bytes_ = 0;  // of its raw bytes, at most
  ShortWordIds whole_words_;        // that become one id
};

}  // namespace espalier::text
