#include "text/token_table.h"

#include <algorithm>

#include "text/byte_level.h"

namespace espalier::text {

TokenTable::TokenTable(const Vocabulary& vocabulary, const std::vector<AddedToken>& added) {
  entries_.reserve(added.size() + vocabulary.size());
  for (const AddedToken& token : added) {
    entries_.push_back({token.id, token.content, token.special});
  }
  for (const auto& [content, id] : vocabulary) entries_.push_back({id, content, false});
  // Of the two entries of an id the added token stays in front.
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const TokenEntry& a, const TokenEntry& b) { return a.id < b.id; });
}

const TokenEntry* TokenTable::find(uint32_t id) const {
  const auto entry =
      std::lower_bound(entries_.begin(), entries_.end(), id,
                       [](const TokenEntry& a, uint32_t wanted) { return a.id < wanted; });
  return entry == entries_.end() || entry->id != id ? nullptr : &*entry;
}

std::string byte_level_entry_bytes(std::string_view content) {
  auto bytes = from_byte_level(content);
  return bytes ? *std::move(bytes) : std::string(content);
}

}  // namespace espalier::text
