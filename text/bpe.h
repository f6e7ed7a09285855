// Byte pair encoding: the bytes or characters of a pre-token (first_symbols.h), merged pair by pair
// in order of rank.
//
// Equal to Hugging Face's `BPE::merge_word` + `Word::merge_all` (tokenizers 0.22, models/bpe): of
// all adjacent pairs that have a merge, the one with the lowest rank is merged first, the leftmost
// among equals. What has the same result faster: words that become one id are looked up, merging
// starts with characters where that is proven, and a short word's pairs are searched for the lowest
// rank. In long ones a heap of candidates makes n bytes cost O(n log n).
//
// Thread contract: a BpeModel is immutable; each thread brings its own BpeScratch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "text/first_symbols.h"
#include "text/merge_table.h"
#include "text/short_word_ids.h"
#include "text/vocabulary.h"

namespace espalier::text {

struct BpeSpec {
  Vocabulary vocabulary;       // ids are unique
  std::vector<Merge> merges;   // of the same pair, the last one counts
  bool ignore_merges = false;  // a pre-token that is an entry as a whole is that entry
  /// Entries are written in the byte-level alphabet, and all 256 bytes have one. Else they are
  /// written as text, and every character has an entry or is covered by `unknown`.
  bool byte_level = true;
  UnknownCharacters unknown;
};

/// Whether no merge reaches over the beginning of a run of `mark` (a character) in text, so that
/// what is cut there has the ids of the whole. Not in byte-level vocabularies, where nobody asks.
bool words_start_at(const BpeSpec& spec, std::string_view mark);

/// Buffers that are reused from word to word.
struct BpeScratch {
  struct Symbol {
    uint32_t id, previous, next;
  };
  std::vector<uint32_t> first_ids;  // what merging starts with
  std::vector<size_t> first_ends;   // where these end in the word, if that is asked for
  std::vector<Symbol> symbols;
  std::vector<uint64_t> candidates;  // rank << 32 | position of the pair's left symbol; a min-heap
};

class BpeModel {
 public:
  explicit BpeModel(BpeSpec spec);

  /// Appends the ids of one pre-token, given as its raw bytes, which must be valid UTF-8.
  void append_ids(std::string_view word, BpeScratch& scratch, std::vector<uint32_t>& ids) const;

  /// The same, and appends to `ends` where in `word` the bytes end that each id stands for.
  void append_ids_with_ends(std::string_view word, BpeScratch& scratch, std::vector<uint32_t>& ids,
                            std::vector<size_t>& ends) const;

  bool byte_level() const { return std::holds_alternative<ByteSymbols>(symbols_); }
  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  BpeModel(BpeSpec& spec, const std::unordered_map<uint32_t, std::string>& raw_entries);
  uint32_t find_entry(std::string_view word) const;
  uint32_t whole_word(std::string_view word) const;
  template <typename Put>
  void spell(std::string_view word, const Put& put) const;
  template <typename Put>
  void merge_word(std::string_view word, BpeScratch& scratch, const Put& put) const;
  template <typename Put>
  void merge_few(const std::vector<uint32_t>& first_ids, const Put& put) const;
  template <typename Put>
  void merge_many(BpeScratch& scratch, const Put& put) const;
  void push_candidate(BpeScratch& scratch, uint32_t left, uint32_t right) const;

  MergeTable merges_;
  bool ignore_merges_;
  bool few_ranks_;
  size_t longest_entry_bytes_ = 0;  // of its raw bytes, at most
  std::variant<ByteSymbols, CharacterSymbols> symbols_;
  Vocabulary vocabulary_;
  ShortWordIds whole_words_;  // that become one id
};

}  // namespace espalier::text
