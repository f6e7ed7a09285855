#include "text/first_symbols.h"

#include <algorithm>

#include "text/byte_level.h"

namespace espalier::text {
namespace {

std::array<uint32_t, 256> ids_of_bytes(const Vocabulary& vocabulary) {
  std::array<uint32_t, 256> ids;
  for (size_t byte = 0; byte < 256; ++byte) {
    const char raw = static_cast<char>(byte);
    ids[byte] = vocabulary.at(to_byte_level({&raw, 1}));
  }
  return ids;
}

/// `<0x0A>` for 10.
std::string fallback_entry(size_t byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + '>';
}

}  // namespace

ByteSymbols::ByteSymbols(const Vocabulary& vocabulary,
                         const std::unordered_map<uint32_t, std::string>& raw_entries,
                         const std::vector<Merge>& merges, const MergeTable& table)
    : byte_ids_(ids_of_bytes(vocabulary)),
      early_characters_(raw_entries, merges, table, byte_ids_) {}

CharacterSymbols::CharacterSymbols(const Vocabulary& vocabulary, const UnknownCharacters& unknown)
    : unknown_(unknown) {
  byte_ids_.fill(kNoId);
  for (size_t byte = 0; unknown.byte_fallback && byte < byte_ids_.size(); ++byte) {
    const auto entry = vocabulary.find(fallback_entry(byte));
    if (entry != vocabulary.end()) byte_ids_[byte] = entry->second;
  }
  for (const auto& [content, id] : vocabulary) {
    if (content.empty()) continue;
    const DecodedCharacter character = decode_utf8(content, 0);
    if (!character.valid || character.length != content.size()) continue;
    if (character.code_point >= ids_.size()) ids_.resize(character.code_point + 1, kNoId);
    ids_[character.code_point] = id;
  }
}

bool spells_all_characters(const Vocabulary& vocabulary, const UnknownCharacters& unknown) {
  if (unknown.unk_id) return true;
  if (!unknown.byte_fallback) return false;
  for (size_t byte = 0; byte < 256; ++byte) {
    if (vocabulary.find(fallback_entry(byte)) == vocabulary.end()) return false;
  }
  return true;
}

}  // namespace espalier::text
