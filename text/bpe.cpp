#include "text/bpe.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "text/byte_level.h"

namespace espalier::text {
namespace {

constexpr uint32_t kNone = UINT32_MAX;  // no neighbour; as an id: merged into its left neighbour
constexpr size_t kWordBytesMax = 1u << 30;  // positions are 32 bits; longer words are cut

/// Of up to so many symbols a search of all pairs for each merge is faster than a heap.
constexpr uint32_t kFewSymbols = 128;
constexpr uint32_t kFewRanks = (1u << 31) / kFewSymbols;  // a rank and a position fit into one key
constexpr int32_t kNoKey = INT32_MAX;
constexpr size_t kLanes = 8;

/// Of `count` keys, a multiple of kLanes.
int32_t lowest_key(const int32_t* keys, size_t count) {
  std::array<int32_t, kLanes> lowest;
  lowest.fill(kNoKey);
  for (size_t i = 0; i < count; i += kLanes) {
    for (size_t k = 0; k < kLanes; ++k) lowest[k] = std::min(lowest[k], keys[i + k]);
  }
  return *std::min_element(lowest.begin(), lowest.end());
}

std::array<uint32_t, 256> ids_of_bytes(const Vocabulary& vocabulary) {
  std::array<uint32_t, 256> ids;
  for (size_t byte = 0; byte < 256; ++byte) {
    const char raw = static_cast<char>(byte);
    ids[byte] = vocabulary.at(to_byte_level({&raw, 1}));
  }
  return ids;
}

std::unordered_map<uint32_t, std::string> raw_entries_of(const Vocabulary& vocabulary) {
  std::unordered_map<uint32_t, std::string> entries;
  entries.reserve(vocabulary.size());
  for (const auto& [content, id] : vocabulary) {
    auto bytes = from_byte_level(content);
    if (bytes && !bytes->empty()) entries.emplace(id, *std::move(bytes));
  }
  return entries;
}

}  // namespace

BpeModel::BpeModel(BpeSpec spec) : BpeModel(spec, raw_entries_of(spec.vocabulary)) {}

BpeModel::BpeModel(BpeSpec& spec, const std::unordered_map<uint32_t, std::string>& raw_entries)
    : vocabulary_(std::move(spec.vocabulary)),
      merges_(spec.merges),
      byte_ids_(ids_of_bytes(vocabulary_)),
      ignore_merges_(spec.ignore_merges),
      few_ranks_(spec.merges.size() < kFewRanks),
      early_characters_(raw_entries, spec.merges, merges_, byte_ids_),
      whole_words_(raw_entries.size()) {
  for (const auto& [content, id] : vocabulary_) {
    longest_entry_bytes_ = std::max(longest_entry_bytes_, content.size());
  }
  // Every entry is tried: there are some that merges never make of their bytes.
  BpeScratch scratch;
  std::vector<uint32_t> ids;
  for (const auto& [id, bytes] : raw_entries) {
    if (bytes.size() > ShortWordIds::kBytesMax || !is_valid_utf8(bytes)) continue;
    ids.clear();
    if (!ignore_merges_) merge_word(bytes, scratch, ids);
    if (ignore_merges_ || (ids.size() == 1 && ids[0] == id)) whole_words_.insert(bytes, id);
  }
}

void BpeModel::append_ids(std::string_view word, BpeScratch& scratch,
                          std::vector<uint32_t>& ids) const {
  if (const uint32_t id = whole_words_.find(word); id != ShortWordIds::kNoId) {
    ids.push_back(id);
    return;
  }
  if (ignore_merges_ && word.size() <= longest_entry_bytes_) {
    if (const auto entry = vocabulary_.find(to_byte_level(word)); entry != vocabulary_.end()) {
      ids.push_back(entry->second);
      return;
    }
  }
  for (size_t at = 0; at < word.size(); at += kWordBytesMax) {
    merge_word(word.substr(at, kWordBytesMax), scratch, ids);
  }
}

void BpeModel::merge_word(std::string_view word, BpeScratch& scratch,
                          std::vector<uint32_t>& ids) const {
  scratch.first_ids.clear();
  for (size_t at = 0; at < word.size();) {
    const auto early = early_characters_.find(word, at);
    scratch.first_ids.push_back(
        early.length != 0 ? early.id : byte_ids_[static_cast<unsigned char>(word[at])]);
    at += std::max<size_t>(early.length, 1);
  }
  if (few_ranks_ && scratch.first_ids.size() <= kFewSymbols) {
    merge_few(scratch.first_ids, ids);
  } else {
    merge_many(scratch, ids);
  }
}

/// Merges 1 to kFewSymbols symbols. Each pair's rank and position are one number, so that a search
/// for the lowest is a loop without branches, of which compilers make vector instructions.
void BpeModel::merge_few(const std::vector<uint32_t>& first_ids, std::vector<uint32_t>& ids) const {
  std::array<uint32_t, kFewSymbols> symbols;
  std::array<uint8_t, kFewSymbols + 1> next, previous;
  // Of the pair that a symbol is the left one of:
  std::array<int32_t, kFewSymbols> keys;
  std::array<uint32_t, kFewSymbols> merged;
  const auto count = static_cast<uint32_t>(first_ids.size());
  const size_t lanes = (count + kLanes - 1) / kLanes * kLanes;
  const auto find_pair = [&](uint32_t left) {
    const auto* const found =
        next[left] == count ? nullptr : merges_.find(symbols[left], symbols[next[left]]);
    keys[left] = found == nullptr ? kNoKey : static_cast<int32_t>(found->rank * kFewSymbols + left);
    if (found != nullptr) merged[left] = found->merged;
  };
  std::fill(keys.begin() + count, keys.begin() + lanes, kNoKey);
  for (uint32_t i = 0; i < count; ++i) {
    symbols[i] = first_ids[i];
    next[i] = static_cast<uint8_t>(i + 1);
    previous[i + 1] = static_cast<uint8_t>(i);
  }
  for (uint32_t i = 0; i < count; ++i) find_pair(i);
  for (int32_t key; (key = lowest_key(keys.data(), lanes)) != kNoKey;) {
    const uint32_t left = static_cast<uint32_t>(key) % kFewSymbols, right = next[left];
    symbols[left] = merged[left];
    keys[right] = kNoKey;
    next[left] = next[right];
    previous[next[right]] = static_cast<uint8_t>(left);
    find_pair(left);
    if (left > 0) find_pair(previous[left]);
  }
  for (uint32_t i = 0; i < count; i = next[i]) ids.push_back(symbols[i]);
}

/// Queues the pair of the symbols at `left` and `right` if it has a merge.
void BpeModel::push_candidate(BpeScratch& scratch, uint32_t left, uint32_t right) const {
  const auto* found = merges_.find(scratch.symbols[left].id, scratch.symbols[right].id);
  if (found == nullptr) return;
  scratch.candidates.push_back(uint64_t{found->rank} << 32 | left);
  std::push_heap(scratch.candidates.begin(), scratch.candidates.end(), std::greater<>());
}

void BpeModel::merge_many(BpeScratch& scratch, std::vector<uint32_t>& ids) const {
  auto& [first_ids, symbols, candidates] = scratch;
  const auto count = static_cast<uint32_t>(first_ids.size());
  symbols.clear();
  candidates.clear();
  for (uint32_t i = 0; i < count; ++i) {
    symbols.push_back({first_ids[i], i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1});
  }
  for (uint32_t i = 0; i + 1 < count; ++i) {
    const auto* found = merges_.find(symbols[i].id, symbols[i + 1].id);
    if (found != nullptr) candidates.push_back(uint64_t{found->rank} << 32 | i);
  }
  std::make_heap(candidates.begin(), candidates.end(), std::greater<>());

  while (!candidates.empty()) {
    const auto rank = static_cast<uint32_t>(candidates.front() >> 32);
    const auto left = static_cast<uint32_t>(candidates.front());
    std::pop_heap(candidates.begin(), candidates.end(), std::greater<>());
    candidates.pop_back();
    // A candidate is out of date when one of its two symbols has been merged since: the pair at
    // this position is then another one, or none.
    if (symbols[left].id == kNone || symbols[left].next == kNone) continue;
    const uint32_t right = symbols[left].next;
    const auto* found = merges_.find(symbols[left].id, symbols[right].id);
    if (found == nullptr || found->rank != rank) continue;

    symbols[left].id = found->merged;
    symbols[left].next = symbols[right].next;
    symbols[right].id = kNone;
    const uint32_t previous = symbols[left].previous, next = symbols[left].next;
    if (next != kNone) symbols[next].previous = left;
    if (previous != kNone) push_candidate(scratch, previous, left);
    if (next != kNone) push_candidate(scratch, left, next);
  }
  for (uint32_t i = 0; i != kNone && count != 0; i = symbols[i].next) ids.push_back(symbols[i].id);
}

}  // namespace espalier::text
