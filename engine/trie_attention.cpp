// FlashAttention (Dao et al. 2022) along a prefix trie. One task is a tile of query rows with one
// KV head. Its queries, rows × the query heads that share the KV head, are the *lanes* of a matrix
//
//     scores (keys × lanes) = K · Qᵀ / sqrt(head_dim)
//
// with keys as rows, so that maximum and sum run along columns: many lanes at once, each in the
// order of its keys. A key is visible to a contiguous range of the tile's rows (preorder), so a
// mask is two runs of -infinity in a row of the matrix.
//
// Keys are taken by their position in the sequence, [t·T, (t+1)·T), never by node: which keys share
// a step of the online softmax then depends on the text alone, not on its neighbours in the batch.
//
// Cost. A tile's keys are the path of its first row r and at most T extra keys, which cost no row
// more than T masked products. Keys on r's path that a later row of the tile does not see lie below
// the branching point of the two; in preorder the walk leaves them there for good, so over the
// whole batch each key row is left once, inside one tile, at no more than kQueryRowsMax masked
// products. So masked work is O(rows · (T + kQueryRowsMax)) in all, whatever the shape of the trie.
// Memory: per thread O(T · head_dim), and the row numbers of one path.
#include "engine/trie_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "engine/aligned_buffer.h"
#include "engine/query_tiles.h"
#include "engine/row_loops.h"
#include "engine/sgemm.h"

namespace espalier::engine {
namespace {

/// T: key tiles begin at multiples of this position.
constexpr size_t kKeyTile = 64;
constexpr size_t kQueryRowsMax = 32;
/// Keys of a tile beyond its first row's path.
constexpr size_t kExtraKeysMax = kKeyTile;
/// Keys of one position range: T of the path, and extra ones.
constexpr size_t kKeysMax = kKeyTile + kExtraKeysMax;
/// Bounds the scratch when many query heads share a KV head.
constexpr size_t kLanesWanted = 256;

/// Query rows [begin, end) of a tile.
struct RowRange {
  size_t begin = 0;
  size_t end = 0;
};

/// What a thread works in; made once a call.
struct Scratch {
  Scratch(size_t lanes, size_t head_dim)
      : queries(head_dim * lanes),
        keys(kKeysMax * head_dim),
        values(kKeysMax * head_dim),
        scores(kKeysMax * lanes),
        sums(lanes * head_dim),
        maximum(lanes),
        weight_sum(lanes),
        rescale(lanes),
        step(kKeysMax),
        visible(kKeysMax) {}

  AlignedBuffer queries;          // (head_dim × lanes), transposed
  AlignedBuffer keys;             // (keys × head_dim) of one step
  AlignedBuffer values;           // (keys × head_dim)
  AlignedBuffer scores;           // (keys × lanes): logits, then their weights
  AlignedBuffer sums;             // (lanes × head_dim) Σ weight · value
  AlignedBuffer maximum;          // (lanes) of the logits so far
  AlignedBuffer weight_sum;       // (lanes) Σ weight
  AlignedBuffer rescale;          // (lanes)
  std::vector<PathRow> path;      // keys of the tile on the path of its first row
  std::vector<PathRow> extra;     // its other keys, at most kExtraKeysMax
  std::vector<uint32_t> step;     // key rows of one position range, ascending
  std::vector<RowRange> visible;  // the tile's rows that see each of them
};

/// One task: a tile of query rows with one KV head.
class TileAttention {
 public:
  TileAttention(const AttentionShape& shape, const TrieView& trie, const KvSpan& kv, size_t kv_head,
                std::span<const uint32_t> rows, Scratch& scratch)
      : trie_(trie),
        kv_(kv),
        rows_(rows),
        kv_head_(kv_head),
        head_dim_(shape.head_dim),
        group_(shape.query_heads / shape.kv_heads),
        lanes_(rows.size() * group_),
        scratch_(scratch) {}

  /// `queries` and `out`: the tile's rows × (group · head_dim), this KV head's columns.
  void run(ConstMatView queries, MutMatView out) {
    take_queries(queries);
    list_keys();
    size_t next = 0;  // in path
    const size_t last_position = last_key_position();
    for (size_t begin = first_key_position() / kKeyTile * kKeyTile; begin <= last_position;
         begin += kKeyTile) {
      next = select_keys(begin, next);
      if (!scratch_.step.empty()) attend_to_step();
    }
    write(out);
  }

 private:
  /// Transposes the queries, one lane a column, and empties the sums.
  void take_queries(ConstMatView queries) {
    for (size_t lane = 0; lane < lanes_; ++lane) {
      const float* const query = queries.row(lane / group_).data() + lane % group_ * head_dim_;
      for (size_t i = 0; i < head_dim_; ++i) scratch_.queries.data()[i * lanes_ + lane] = query[i];
    }
    std::fill_n(scratch_.sums.data(), lanes_ * head_dim_, 0.0f);
    std::fill_n(scratch_.weight_sum.data(), lanes_, 0.0f);
    std::fill_n(scratch_.maximum.data(), lanes_, -std::numeric_limits<float>::infinity());
  }

  void list_keys() {
    scratch_.path.clear();
    scratch_.extra.clear();
    append_path(trie_, rows_.front(), 0, scratch_.path);
    for (size_t i = 1; i < rows_.size(); ++i) {
      append_path(trie_, rows_[i], rows_[i - 1] + 1, scratch_.extra);
    }
  }

  size_t first_key_position() const {
    size_t first = scratch_.path.front().position;
    for (const PathRow& key : scratch_.extra) first = std::min<size_t>(first, key.position);
    return first;
  }

  size_t last_key_position() const {
    size_t last = scratch_.path.back().position;
    for (const PathRow& key : scratch_.extra) last = std::max<size_t>(last, key.position);
    return last;
  }

  /// Puts the keys of positions [begin, begin + T) into scratch_.step, ascending by row, and finds
  /// the rows that see them. `next` is where path goes on, and is returned moved on.
  size_t select_keys(size_t begin, size_t next) {
    const size_t end = begin + kKeyTile;
    scratch_.step.clear();
    scratch_.visible.clear();
    for (; next < scratch_.path.size() && scratch_.path[next].position < end; ++next) {
      select(scratch_.path[next].row);
    }
    for (const PathRow& key : scratch_.extra) {
      if (key.position >= begin && key.position < end) select(key.row);
    }
    return next;
  }

  void select(uint32_t key) {
    const uint32_t subtree_end = trie_.nodes[trie_.node_of_row[key]].subtree_end;
    const auto begin =
        key <= rows_.front() ? rows_.begin() : std::lower_bound(rows_.begin(), rows_.end(), key);
    const auto end = rows_.back() < subtree_end ? rows_.end()
                                                : std::lower_bound(begin, rows_.end(), subtree_end);
    scratch_.step.push_back(key);
    scratch_.visible.push_back({.begin = static_cast<size_t>(begin - rows_.begin()),
                                .end = static_cast<size_t>(end - rows_.begin())});
  }

  /// One step of the online softmax, over the keys in scratch_.step.
  void attend_to_step() {
    const RowRange rows = rows_that_see_any();
    const size_t keys = scratch_.step.size();
    const size_t first_lane = rows.begin * group_;
    const size_t lanes = (rows.end - rows.begin) * group_;
    pack(kv_.keys, scratch_.keys.data());
    pack(kv_.values, scratch_.values.data());

    // Queries were transposed once so that this product, made for every step, needs no
    // transposition: 5 to 15 % of the whole on long texts.
    const MutMatView scores(scratch_.scores.data(), keys, lanes);
    const ConstMatView packed_keys(scratch_.keys.data(), keys, head_dim_);
    const ConstMatView packed_values(scratch_.values.data(), keys, head_dim_);
    const ConstMatView queries(scratch_.queries.data(), head_dim_, lanes_);
    const float scale = 1.0f / std::sqrt(static_cast<float>(head_dim_));
    sgemm_nn(scale, packed_keys, queries.col_range(first_lane, lanes), 0.0f, scores);
    mask(scores, rows);

    row_loops().online_softmax(scores.data, scores.stride, keys, lanes,
                               scratch_.maximum.data() + first_lane,
                               scratch_.weight_sum.data() + first_lane, scratch_.rescale.data());
    const MutMatView sums(scratch_.sums.data() + first_lane * head_dim_, lanes, head_dim_);
    rescale(sums);
    sgemm_tn(1.0f, scores, packed_values, 1.0f, sums);
  }

  /// The rows outside see no key of this step.
  RowRange rows_that_see_any() const {
    RowRange rows = scratch_.visible.front();
    for (const RowRange& visible : scratch_.visible) {
      rows.begin = std::min(rows.begin, visible.begin);
      rows.end = std::max(rows.end, visible.end);
    }
    return rows;
  }

  /// Copies this head's part of the key rows next to each other: in place they lie a power of two
  /// apart, and would throw each other out of the cache.
  void pack(const float* source, float* out) const {
    for (const uint32_t row : scratch_.step) {
      const float* const from = source + row * kv_.row_stride + kv_head_ * head_dim_;
      out = std::copy_n(from, head_dim_, out);
    }
  }

  /// `scores` has the lanes of `rows` only.
  void mask(MutMatView scores, RowRange rows) const {
    for (size_t key = 0; key < scores.rows; ++key) {
      const RowRange visible = scratch_.visible[key];
      const std::span<float> row = scores.row(key);
      const auto hide = [&](size_t begin, size_t end) {
        std::fill(row.begin() + static_cast<std::ptrdiff_t>((begin - rows.begin) * group_),
                  row.begin() + static_cast<std::ptrdiff_t>((end - rows.begin) * group_),
                  -std::numeric_limits<float>::infinity());
      };
      hide(rows.begin, visible.begin);
      hide(visible.end, rows.end);
    }
  }

  void rescale(MutMatView sums) const {
    for (size_t lane = 0; lane < sums.rows; ++lane) {
      const float factor = scratch_.rescale.data()[lane];
      if (factor == 1.0f) continue;  // most often: the maximum stays
      for (float& sum : sums.row(lane)) sum *= factor;
    }
  }

  void write(MutMatView out) const {
    for (size_t lane = 0; lane < lanes_; ++lane) {
      // At least 1: the largest weight of a lane is e^0, and every row sees itself.
      const float norm = 1.0f / scratch_.weight_sum.data()[lane];
      const float* const sums = scratch_.sums.data() + lane * head_dim_;
      float* const row = out.row(lane / group_).data() + lane % group_ * head_dim_;
      for (size_t i = 0; i < head_dim_; ++i) row[i] = sums[i] * norm;
    }
  }

  const TrieView& trie_;
  const KvSpan& kv_;
  std::span<const uint32_t> rows_;
  size_t kv_head_;
  size_t head_dim_;
  size_t group_;  // query heads that share the KV head
  size_t lanes_;  // lane = row of the tile · group_ + head within the group
  Scratch& scratch_;
};

void require_shapes(const AttentionShape& shape, std::span<const uint32_t> query_rows,
                    ConstMatView queries, MutMatView out) {
  const size_t width = shape.query_heads * shape.head_dim;
  if (shape.kv_heads == 0 || shape.head_dim == 0 || shape.query_heads == 0 ||
      shape.query_heads % shape.kv_heads != 0) {
    throw std::invalid_argument("trie_attention: " + std::to_string(shape.query_heads) +
                                " query heads, " + std::to_string(shape.kv_heads) +
                                " KV heads, head_dim " + std::to_string(shape.head_dim));
  }
  if (queries.rows != query_rows.size() || out.rows != query_rows.size() || queries.cols != width ||
      out.cols != width) {
    throw std::invalid_argument("trie_attention: " + std::to_string(query_rows.size()) +
                                " query rows of " + std::to_string(width) + ", queries " +
                                std::to_string(queries.rows) + " x " +
                                std::to_string(queries.cols) + ", out " + std::to_string(out.rows) +
                                " x " + std::to_string(out.cols));
  }
}

}  // namespace

void trie_attention(ThreadPool& pool, const AttentionShape& shape, const TrieView& trie,
                    std::span<const uint32_t> query_rows, ConstMatView queries, const KvSpan& kv,
                    MutMatView out) {
  require_shapes(shape, query_rows, queries, out);
  if (query_rows.empty()) return;
  const size_t group = shape.query_heads / shape.kv_heads;
  const size_t rows_max = std::clamp<size_t>(kLanesWanted / group, 1, kQueryRowsMax);
  const std::vector<QueryTile> tiles = cut_query_tiles(trie, query_rows, rows_max, kExtraKeysMax);
  std::vector<Scratch> scratch;
  scratch.reserve(pool.size());
  for (size_t worker = 0; worker < pool.size(); ++worker) {
    scratch.emplace_back(rows_max * group, shape.head_dim);
  }
  pool.parallel_for(tiles.size() * shape.kv_heads, [&](size_t task, size_t worker) {
    // Head by head, because neighbouring tiles share keys that are in the cache then; the last tile
    // first, because in a long text it has the most keys.
    const size_t kv_head = task / tiles.size();
    const QueryTile tile = tiles[tiles.size() - 1 - task % tiles.size()];
    const size_t width = group * shape.head_dim;
    TileAttention(shape, trie, kv, kv_head, query_rows.subspan(tile.first, tile.count),
                  scratch[worker])
        .run(queries.row_range(tile.first, tile.count).col_range(kv_head * width, width),
             out.row_range(tile.first, tile.count).col_range(kv_head * width, width));
  });
}

}  // namespace espalier::engine
