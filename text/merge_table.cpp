#include "text/merge_table.h"

#include <algorithm>
#include <bit>

namespace espalier::text {

MergeTable::MergeTable(const std::vector<Merge>& merges) {
  const size_t size = std::bit_ceil(std::max<size_t>(16, merges.size() + merges.size() / 2));
  slots_.assign(size, Slot{kEmptyPair, {}});
  shift_ = 64 - std::countr_zero(size);
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const uint64_t pair = uint64_t{merges[rank].left} << 32 | merges[rank].right;
    slots_[slot_of(pair)] = {pair, {static_cast<uint32_t>(rank), merges[rank].merged}};
  }
}

}  // namespace espalier::text
