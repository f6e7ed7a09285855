#include "engine/attention_tile.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace espalier::engine {
namespace {

constexpr size_t kFloatsPerLine = kBufferAlignment / sizeof(float);

size_t round_up(size_t n, size_t step) { return (n + step - 1) / step * step; }

}  // namespace

void TileScratch::reserve(size_t rows, size_t heads, size_t head_dim) {
  AttentionTile tile;
  tile.head_dim = head_dim;
  tile.padded_dim = round_up(head_dim, kHeadDimStep);
  tile.lane_stride = round_up(rows * heads + kLaneSlack, kFloatsPerLine);
  const size_t sizes[] = {
      tile.padded_dim * tile.lane_stride,  // queries
      kKeyRange * tile.padded_dim,         // keys
      kKeyRange * tile.padded_dim,         // values
      kKeyRange * tile.lane_stride,        // scores
      tile.lane_stride * tile.padded_dim,  // sums
      tile.lane_stride,                    // maximum
      tile.lane_stride,                    // weight_sum
      tile.lane_stride,                    // rescale
  };
  size_t total = 0;
  for (const size_t size : sizes) total += size;
  if (buffer_.size() < total) {
    buffer_ = AlignedBuffer(total);
    // Loops compute with lanes that no query has filled, and throw the result away.
    std::fill_n(buffer_.data(), total, 0.0f);
  }
  float* next = buffer_.data();
  float** const parts[] = {&tile.queries, &tile.keys,    &tile.values,     &tile.scores,
                           &tile.sums,    &tile.maximum, &tile.weight_sum, &tile.rescale};
  for (size_t i = 0; i < std::size(parts); ++i) {
    *parts[i] = next;
    next += sizes[i];
  }
  tile_ = tile;
  slots_.resize(kKeyRange);
  keys_.resize(kKeyRange);
  values_.resize(kKeyRange);
  queries_.resize(rows * heads);
  visible_.resize(rows * heads);
}

TileAttention::TileAttention(const AttentionLoops& loops, const AttentionShape& shape,
                             const TrieView& trie, const KvSpan& kv, size_t kv_head,
                             std::span<const uint32_t> rows, TileScratch& scratch)
    : loops_(loops),
      trie_(trie),
      kv_(kv),
      rows_(rows),
      head_bytes_(shape.head_dim * bytes_of(kv.format)),
      head_offset_(kv_head * head_bytes_),
      heads_(shape.query_heads / shape.kv_heads),
      scale_(
          static_cast<float>(std::numbers::log2e / std::sqrt(static_cast<double>(shape.head_dim)))),
      scratch_(scratch) {
  scratch_.tile_.lanes = rows.size() * heads_;
}

void TileAttention::run(ConstActivations queries, Activations out) {
  prefetch_rows();
  take_queries(queries);
  list_paths();
  const size_t last = *std::max_element(scratch_.position_.begin(), scratch_.position_.end());
  for (size_t begin = 0; begin <= last; begin += kKeyRange) {
    attend_to_range(begin, begin + kKeyRange);
  }
  for (size_t lane = 0; lane < scratch_.tile_.lanes; ++lane) {
    loops_.write(scratch_.tile_, lane, out.row(lane / heads_) + lane % heads_ * head_bytes_);
  }
}

/// Keys and values of the tile's own rows: in short texts, most of what it reads.
void TileAttention::prefetch_rows() const {
  for (const uint32_t row : rows_) {
    const size_t offset = row * kv_.row_stride + head_offset_;
    for (size_t line = 0; line < head_bytes_; line += kBufferAlignment) {
      __builtin_prefetch(kv_.keys + offset + line);
      __builtin_prefetch(kv_.values + offset + line);
    }
  }
}

void TileAttention::take_queries(ConstActivations queries) {
  const AttentionTile& tile = scratch_.tile_;
  for (size_t lane = 0; lane < tile.lanes; ++lane) {
    scratch_.queries_[lane] = queries.row(lane / heads_) + lane % heads_ * head_bytes_;
  }
  loops_.pack_queries(tile, scratch_.queries_.data());
  std::fill_n(tile.sums, tile.lanes * tile.padded_dim, 0.0f);
  std::fill_n(tile.weight_sum, tile.lanes, 0.0f);
  std::fill_n(tile.maximum, tile.lanes, -std::numeric_limits<float>::infinity());
}

void TileAttention::list_paths() {
  scratch_.own_.clear();
  scratch_.own_begin_.clear();
  scratch_.branch_.clear();
  scratch_.position_.clear();
  for (size_t i = 0; i < rows_.size(); ++i) {
    const size_t begin = scratch_.own_.size();
    // See query_tiles.h: rows beyond the row before are those that are not on its path.
    append_path(trie_, rows_[i], i == 0 ? 0 : rows_[i - 1] + 1, scratch_.own_);
    scratch_.own_begin_.push_back(begin);
    scratch_.branch_.push_back(scratch_.own_[begin].position);
    scratch_.position_.push_back(scratch_.own_.back().position);
  }
}

void TileAttention::attend_to_range(size_t begin, size_t end) {
  // Going from row to row, slots_ holds the path of the row in this range.
  constexpr size_t kNoChain = SIZE_MAX;
  size_t chain = kNoChain;  // its first row
  for (size_t i = 0; i < rows_.size(); ++i) {
    const size_t position = scratch_.position_[i];
    if (chain != kNoChain && (position < begin || begins_chain(i, end))) {
      attend_to_chain(chain, i - 1, begin, end);
      chain = kNoChain;
    }
    if (position < begin) continue;
    if (chain == kNoChain) chain = i;
    const size_t branch = scratch_.branch_[i];
    const PathRow* own = scratch_.own_.data() + scratch_.own_begin_[i];
    for (size_t p = std::max(begin, branch); p < std::min(end, position + 1); ++p) {
      scratch_.slots_[p - begin] = own[p - branch].row;
    }
  }
  if (chain != kNoChain) attend_to_chain(chain, rows_.size() - 1, begin, end);
}

/// Whether the path of the row before `row`, up to position `end`, is not a beginning of its own.
bool TileAttention::begins_chain(size_t row, size_t end) const {
  return scratch_.branch_[row] < std::min<size_t>(end, scratch_.position_[row - 1] + size_t{1});
}

void TileAttention::attend_to_chain(size_t first_row, size_t last_row, size_t begin, size_t end) {
  const auto seen = [&](size_t row) {
    return std::min<size_t>(scratch_.position_[row] + size_t{1}, end) - begin;
  };
  const size_t slots = seen(last_row);
  for (size_t slot = 0; slot < slots; ++slot) {
    const size_t offset = scratch_.slots_[slot] * kv_.row_stride + head_offset_;
    scratch_.keys_[slot] = kv_.keys + offset;
    scratch_.values_[slot] = kv_.values + offset;
  }
  int32_t* visible = scratch_.visible_.data();
  for (size_t row = first_row; row <= last_row; ++row) {
    visible = std::fill_n(visible, heads_, static_cast<int32_t>(seen(row)));
  }
  loops_.attend(scratch_.tile_,
                {.slots = slots,
                 .keys = scratch_.keys_.data(),
                 .values = scratch_.values_.data(),
                 .first_lane = first_row * heads_,
                 .lanes = (last_row - first_row + 1) * heads_,
                 .visible = scratch_.visible_.data()},
                scale_);
}

}  // namespace espalier::engine
