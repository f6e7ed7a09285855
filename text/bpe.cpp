#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "text/byte_level.h"

namespace espalier::text {
namespace {

constexpr uint32_t kNone = UINT32_MAX;  // no neighbour; as an id: merged into its left neighbour
constexpr uint64_t kEmptyPair = UINT64_MAX;  // no entry has id UINT32_MAX
constexpr size_t kWordBytesMax = 1u << 30;   // positions are 32 bits; longer words are cut

/// Up to here a search of all pairs for each merge is faster than a heap.
constexpr size_t kShortWordBytes = 96;

constexpr uint64_t pair_key(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }

}  // namespace

BpeModel::MergeTable::MergeTable(const std::vector<Merge>& merges) {
  const size_t size = std::bit_ceil(std::max<size_t>(16, merges.size() + merges.size() / 2));
  slots_.assign(size, Slot{kEmptyPair, {}});
  shift_ = 64 - std::countr_zero(size);
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const uint64_t pair = pair_key(merges[rank].left, merges[rank].right);
    slots_[slot_of(pair)] = {pair, {static_cast<uint32_t>(rank), merges[rank].merged}};
  }
}

/// The slot that holds `pair`, or the empty one where it belongs. Linear probing from a
/// multiplicative (Fibonacci) hash; a third of the slots is empty, so it ends.
size_t BpeModel::MergeTable::slot_of(uint64_t pair) const {
  const uint64_t mixed = (pair ^ pair >> 29) * 0x9E3779B97F4A7C15u;
  size_t slot = mixed >> shift_;
  while (slots_[slot].pair != pair && slots_[slot].pair != kEmptyPair) {
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return slot;
}

const BpeModel::MergeTable::Found* BpeModel::MergeTable::find(uint32_t left, uint32_t right) const {
  const Slot& slot = slots_[slot_of(pair_key(left, right))];
  return slot.pair == kEmptyPair ? nullptr : &slot.found;
}

BpeModel::BpeModel(BpeSpec spec)
    : vocabulary_(std::move(spec.vocabulary)),
      merges_(spec.merges),
      ignore_merges_(spec.ignore_merges),
      whole_words_(vocabulary_.size()) {
  for (size_t byte = 0; byte < 256; ++byte) {
    const char raw = static_cast<char>(byte);
    byte_ids_[byte] = vocabulary_.at(to_byte_level({&raw, 1}));
  }
  for (const auto& [content, id] : vocabulary_) {
    longest_entry_bytes_ = std::max(longest_entry_bytes_, content.size());
  }
  find_whole_words();
}

/// Tries every entry: there are some that merges never make of their bytes.
void BpeModel::find_whole_words() {
  std::vector<uint32_t> ids;
  for (const auto& [content, id] : vocabulary_) {
    const auto word = from_byte_level(content);
    if (!word || word->empty() || word->size() > ShortWordIds::kBytesMax) continue;
    ids.clear();
    if (!ignore_merges_) merge_short_word(*word, ids);
    if (ignore_merges_ || (ids.size() == 1 && ids[0] == id)) whole_words_.insert(*word, id);
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
  if (word.size() <= kShortWordBytes) return merge_short_word(word, ids);
  for (size_t at = 0; at < word.size(); at += kWordBytesMax) {
    merge_long_word(word.substr(at, kWordBytesMax), scratch, ids);
  }
}

/// Queues the pair of the symbols at `left` and `right` if it has a merge.
void BpeModel::push_candidate(BpeScratch& scratch, uint32_t left, uint32_t right) const {
  const auto* found = merges_.find(scratch.symbols[left].id, scratch.symbols[right].id);
  if (found == nullptr) return;
  scratch.candidates.push_back(uint64_t{found->rank} << 32 | left);
  std::push_heap(scratch.candidates.begin(), scratch.candidates.end(), std::greater<>());
}

/// At most kShortWordBytes bytes.
void BpeModel::merge_short_word(std::string_view word, std::vector<uint32_t>& ids) const {
  // symbols[i] and symbols[i + 1] merge to merged[i] with ranks[i]; that is kNone if they do not.
  std::array<uint32_t, kShortWordBytes> symbols, ranks, merged;
  size_t count = word.size();
  const auto find_pair = [&](size_t i) {
    const auto* found = i + 1 < count ? merges_.find(symbols[i], symbols[i + 1]) : nullptr;
    ranks[i] = found == nullptr ? kNone : found->rank;
    merged[i] = found == nullptr ? kNone : found->merged;
  };
  for (size_t i = 0; i < count; ++i) symbols[i] = byte_ids_[static_cast<unsigned char>(word[i])];
  for (size_t i = 0; i < count; ++i) find_pair(i);
  while (count > 1) {
    const auto lowest = std::min_element(ranks.begin(), ranks.begin() + count);
    const auto left = static_cast<size_t>(lowest - ranks.begin());
    if (*lowest == kNone) break;
    symbols[left] = merged[left];
    for (auto* list : {&symbols, &ranks, &merged}) {
      std::copy(list->begin() + left + 2, list->begin() + count, list->begin() + left + 1);
    }
    --count;
    find_pair(left);
    if (left > 0) find_pair(left - 1);
  }
  ids.insert(ids.end(), symbols.begin(), symbols.begin() + count);
}

void BpeModel::merge_long_word(std::string_view word, BpeScratch& scratch,
                               std::vector<uint32_t>& ids) const {
  auto& [symbols, candidates] = scratch;
  const uint32_t count = static_cast<uint32_t>(word.size());
  symbols.clear();
  candidates.clear();
  for (uint32_t i = 0; i < count; ++i) {
    symbols.push_back({byte_ids_[static_cast<unsigned char>(word[i])], i == 0 ? kNone : i - 1,
                       i + 1 == count ? kNone : i + 1});
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
