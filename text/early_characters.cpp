#include "text/early_characters.h"

#include <algorithm>

#include "text/utf8.h"

namespace espalier::text {
namespace {

constexpr size_t kCodePoints = 0x10000;  // those of up to three bytes

bool is_ascii_byte(char byte) { return static_cast<unsigned char>(byte) < 0x80; }
bool is_continuation(char byte) { return (byte & 0xC0) == 0x80; }

}  // namespace

void EarlyCharacters::Borders::lower_to(const Borders& other) {
  behind_ascii = std::min(behind_ascii, other.behind_ascii);
  behind_other = std::min(behind_other, other.behind_other);
  before_ascii = std::min(before_ascii, other.before_ascii);
  before_other = std::min(before_other, other.before_other);
}

/// Merges whose right part starts with a continuation byte lie within a character.
EarlyCharacters::BordersById EarlyCharacters::find_borders(
    const std::unordered_map<uint32_t, std::string>& raw_entries,
    const std::vector<Merge>& merges) {
  BordersById borders;
  for (size_t i = 0; i < merges.size(); ++i) {
    const auto left = raw_entries.find(merges[i].left), right = raw_entries.find(merges[i].right);
    // What stands for no bytes never comes about.
    if (left == raw_entries.end() || right == raw_entries.end()) continue;
    if (is_continuation(right->second.front())) continue;
    const auto rank = static_cast<uint32_t>(i);
    Borders of_left, of_right;
    (is_ascii_byte(right->second.front()) ? of_left.before_ascii : of_left.before_other) = rank;
    (is_ascii_byte(left->second.back()) ? of_right.behind_ascii : of_right.behind_other) = rank;
    borders[merges[i].left].lower_to(of_left);
    borders[merges[i].right].lower_to(of_right);
  }
  return borders;
}

/// Merges the bytes of one character by themselves and compares the ranks on the way with those at
/// the borders of what comes about.
EarlyCharacters::Entry EarlyCharacters::trace(std::string_view bytes, const MergeTable& table,
                                              const std::array<uint32_t, 256>& byte_ids,
                                              const BordersById& borders) {
  std::vector<uint32_t> symbols;
  for (const char byte : bytes) symbols.push_back(byte_ids[static_cast<unsigned char>(byte)]);
  uint32_t highest = 0;
  Borders lowest;
  for (;;) {
    if (const auto first = borders.find(symbols.front()); first != borders.end()) {
      lowest.behind_ascii = std::min(lowest.behind_ascii, first->second.behind_ascii);
      lowest.behind_other = std::min(lowest.behind_other, first->second.behind_other);
    }
    if (const auto last = borders.find(symbols.back()); last != borders.end()) {
      lowest.before_ascii = std::min(lowest.before_ascii, last->second.before_ascii);
      lowest.before_other = std::min(lowest.before_other, last->second.before_other);
    }
    if (symbols.size() == 1) break;
    size_t best = 0;
    const MergeTable::Found* best_found = nullptr;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto* found = table.find(symbols[i], symbols[i + 1]);
      if (found == nullptr || (best_found != nullptr && found->rank >= best_found->rank)) continue;
      best = i;
      best_found = found;
    }
    if (best_found == nullptr) return {};
    highest = std::max(highest, best_found->rank);
    symbols[best] = best_found->merged;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  unsigned early = kAlone;
  if (lowest.behind_ascii > highest) early |= kBehindAscii;
  if (lowest.behind_other > highest) early |= kBehindOther;
  if (lowest.before_ascii > highest) early |= kBeforeAscii;
  if (lowest.before_other > highest) early |= kBeforeOther;
  return {symbols.front(), early};
}

EarlyCharacters::EarlyCharacters(const std::unordered_map<uint32_t, std::string>& raw_entries,
                                 const std::vector<Merge>& merges, const MergeTable& table,
                                 const std::array<uint32_t, 256>& byte_ids)
    : entries_(kCodePoints) {
  const BordersById borders = find_borders(raw_entries, merges);
  for (const auto& [id, bytes] : raw_entries) {
    if (bytes.size() < 2 || bytes.size() > 3) continue;
    const DecodedCharacter character = decode_utf8(bytes, 0);
    if (!character.valid || character.length != bytes.size()) continue;
    entries_[character.code_point] = trace(bytes, table, byte_ids, borders);
  }
}

}  // namespace espalier::text
