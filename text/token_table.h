// The entries of a tokenizer by id, and the text that ids stand for.
//
// Thread contract: immutable after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"

namespace espalier::text {

struct TokenEntry {
  uint32_t id;
  std::string_view content;  // as the vocabulary writes it
  bool special;              // an added token with `special`
};

class TokenTable {
 public:
  /// Entries refer to the strings of `vocabulary` and `added`, which must stay where they are. An
  /// added token comes before the vocabulary's entry of its id.
  TokenTable(const Vocabulary& vocabulary, const std::vector<AddedToken>& added);

  /// The entry of `id`, or null if there is none.
  const TokenEntry* find(uint32_t id) const;

 private:
  std::vector<TokenEntry> entries_;  // sorted by id: ids may have gaps of any size
};

/// The bytes that an entry of a byte-level vocabulary stands for. Hugging Face's byte-level decoder
/// reads every content alike, those of added tokens too: one that has a character outside the
/// byte-level alphabet stands for its own UTF-8.
std::string byte_level_entry_bytes(std::string_view content);

}  // namespace espalier::text
