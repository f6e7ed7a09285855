#include "text/bpe.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "text/byte_level.h"
#include "text/utf8.h"

namespace espalier::text {
namespace {

constexpr uint32_t kNone = UINT32_MAX;  // no neighbour; as an id: merged into its left neighbour
/// Longer words are cut: merging takes up to 40 bytes of memory for each byte of a word.
constexpr size_t kWordBytesMax = 1u << 20;

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

/// What of a word (not empty) is merged at once.
size_t part_bytes(std::string_view word) {
  return word.size() <= kWordBytesMax ? word.size() : character_boundary(word, kWordBytesMax);
}

/// The entries that stand for bytes, as these.
std::unordered_map<uint32_t, std::string> raw_entries_of(const BpeSpec& spec) {
  std::unordered_map<uint32_t, std::string> entries;
  entries.reserve(spec.vocabulary.size());
  for (const auto& [content, id] : spec.vocabulary) {
    auto bytes = spec.byte_level ? from_byte_level(content) : std::optional(content);
    if (bytes && !bytes->empty()) entries.emplace(id, *std::move(bytes));
  }
  return entries;
}

std::variant<ByteSymbols, CharacterSymbols> symbols_of(
    const BpeSpec& spec, const std::unordered_map<uint32_t, std::string>& raw_entries,
    const MergeTable& merges) {
  if (spec.byte_level) return ByteSymbols(spec.vocabulary, raw_entries, spec.merges, merges);
  return CharacterSymbols(spec.vocabulary, spec.unknown);
}

}  // namespace

/// A symbol that ends before the run ends with the entry of a character other than the mark, with a
/// `<0x…>` or with the unknown token; the one that starts with the run starts with the mark's own
/// entry, because what merges make is spelled by its parts.
bool words_start_at(const BpeSpec& spec, std::string_view mark) {
  if (spec.byte_level || spec.ignore_merges || is_ascii(mark)) return false;
  if (spec.vocabulary.find(mark) == spec.vocabulary.end()) return false;
  std::unordered_map<uint32_t, std::string_view> contents;
  contents.reserve(spec.vocabulary.size());
  for (const auto& [content, id] : spec.vocabulary) contents.emplace(id, content);
  if (spec.unknown.unk_id && contents.at(*spec.unknown.unk_id).ends_with(mark)) return false;
  return std::all_of(spec.merges.begin(), spec.merges.end(), [&](const Merge& merge) {
    const std::string_view left = contents.at(merge.left), right = contents.at(merge.right);
    const std::string_view made = contents.at(merge.merged);
    const bool spelled = made.size() == left.size() + right.size() && made.starts_with(left) &&
                         made.ends_with(right);
    return spelled && (!right.starts_with(mark) || left.ends_with(mark));
  });
}

BpeModel::BpeModel(BpeSpec spec) : BpeModel(spec, raw_entries_of(spec)) {}

BpeModel::BpeModel(BpeSpec& spec, const std::unordered_map<uint32_t, std::string>& raw_entries)
    : merges_(spec.merges),
      ignore_merges_(spec.ignore_merges),
      few_ranks_(spec.merges.size() < kFewRanks),
      symbols_(symbols_of(spec, raw_entries, merges_)),
      vocabulary_(std::move(spec.vocabulary)),
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
    if (!ignore_merges_) {
      merge_word(bytes, scratch, [&](uint32_t, uint32_t made) { ids.push_back(made); });
    }
    if (ignore_merges_ || (ids.size() == 1 && ids[0] == id)) whole_words_.insert(bytes, id);
  }
}

/// The id of a word that is an entry, or ShortWordIds::kNoId.
uint32_t BpeModel::find_entry(std::string_view word) const {
  if (word.size() > longest_entry_bytes_) return ShortWordIds::kNoId;
  const auto entry = byte_level() ? vocabulary_.find(to_byte_level(word)) : vocabulary_.find(word);
  return entry == vocabulary_.end() ? ShortWordIds::kNoId : entry->second;
}

/// The id of a word that is looked up, or ShortWordIds::kNoId if it is to be merged.
inline uint32_t BpeModel::whole_word(std::string_view word) const {
  const uint32_t id = whole_words_.find(word);
  return id == ShortWordIds::kNoId && ignore_merges_ ? find_entry(word) : id;
}

void BpeModel::append_ids(std::string_view word, BpeScratch& scratch,
                          std::vector<uint32_t>& ids) const {
  if (const uint32_t id = whole_word(word); id != ShortWordIds::kNoId) {
    ids.push_back(id);
    return;
  }
  while (!word.empty()) {
    const size_t size = part_bytes(word);
    merge_word(word.substr(0, size), scratch, [&](uint32_t, uint32_t id) { ids.push_back(id); });
    word.remove_prefix(size);
  }
}

void BpeModel::append_ids_with_ends(std::string_view word, BpeScratch& scratch,
                                    std::vector<uint32_t>& ids, std::vector<size_t>& ends) const {
  if (const uint32_t id = whole_word(word); id != ShortWordIds::kNoId) {
    ids.push_back(id);
    ends.push_back(word.size());
    return;
  }
  for (size_t begin = 0; begin < word.size();) {
    const size_t end = begin + part_bytes(word.substr(begin));
    const std::string_view part = word.substr(begin, end - begin);
    auto& first_ends = scratch.first_ends;
    first_ends.clear();
    spell(part, [&](uint32_t, size_t bytes) {
      first_ends.push_back((first_ends.empty() ? begin : first_ends.back()) + bytes);
    });
    // An id ends where the next one begins.
    merge_word(part, scratch, [&](uint32_t first, uint32_t id) {
      if (first != 0) ends.push_back(first_ends[first - 1]);
      ids.push_back(id);
    });
    ends.push_back(end);
    begin = end;
  }
}

template <typename Put>
void BpeModel::spell(std::string_view word, const Put& put) const {
  if (const auto* const bytes = std::get_if<ByteSymbols>(&symbols_)) {
    bytes->spell(word, put);
  } else {
    std::get_if<CharacterSymbols>(&symbols_)->spell(word, put);
  }
}

/// Calls put(index of its first symbol, id) for each symbol that is left.
template <typename Put>
void BpeModel::merge_word(std::string_view word, BpeScratch& scratch, const Put& put) const {
  scratch.first_ids.clear();
  spell(word, [&](uint32_t id, size_t) { scratch.first_ids.push_back(id); });
  if (few_ranks_ && scratch.first_ids.size() <= kFewSymbols) {
    merge_few(scratch.first_ids, put);
  } else {
    merge_many(scratch, put);
  }
}

/// Merges 1 to kFewSymbols symbols. Each pair's rank and position are one number, so that a search
/// for the lowest is a loop without branches, of which compilers make vector instructions.
template <typename Put>
void BpeModel::merge_few(const std::vector<uint32_t>& first_ids, const Put& put) const {
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
  for (uint32_t i = 0; i < count; i = next[i]) put(i, symbols[i]);
}

/// Queues the pair of the symbols at `left` and `right` if it has a merge.
void BpeModel::push_candidate(BpeScratch& scratch, uint32_t left, uint32_t right) const {
  const auto* found = merges_.find(scratch.symbols[left].id, scratch.symbols[right].id);
  if (found == nullptr) return;
  scratch.candidates.push_back(uint64_t{found->rank} << 32 | left);
  std::push_heap(scratch.candidates.begin(), scratch.candidates.end(), std::greater<>());
}

template <typename Put>
void BpeModel::merge_many(BpeScratch& scratch, const Put& put) const {
  const std::vector<uint32_t>& first_ids = scratch.first_ids;
  auto& symbols = scratch.symbols;
  auto& candidates = scratch.candidates;
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
  for (uint32_t i = 0; i != kNone && count != 0; i = symbols[i].next) put(i, symbols[i].id);
}

}  // namespace espalier::text
