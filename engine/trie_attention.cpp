#include "engine/trie_attention.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/attention_loops.h"
#include "engine/attention_tile.h"
#include "engine/query_tiles.h"

namespace espalier::engine {
namespace {

/// Query rows × query heads of a tile, unless the heads of one row are more.
constexpr size_t kLanesWanted = 64;
/// Bounds the memory for the paths of a tile, when its rows share little.
constexpr size_t kExtraKeysMax = 512;

void require_shapes(const AttentionShape& shape, std::span<const uint32_t> query_rows,
                    const ConstActivations& queries, const KvSpan& kv, const Activations& out) {
  const size_t width = shape.query_heads * shape.head_dim;
  if (shape.kv_heads == 0 || shape.head_dim == 0 || shape.query_heads == 0 ||
      shape.query_heads % shape.kv_heads != 0 ||
      (kv.format == NumberFormat::kBf16 && shape.head_dim % 2 != 0)) {
    throw std::invalid_argument("trie_attention: " + std::to_string(shape.query_heads) +
                                " query heads, " + std::to_string(shape.kv_heads) +
                                " KV heads, head_dim " + std::to_string(shape.head_dim) + ", " +
                                std::string(name_of(kv.format)));
  }
  const auto describe = [](const auto& matrix) {
    return std::to_string(matrix.rows) + " x " + std::to_string(matrix.cols) + " " +
           std::string(name_of(matrix.format));
  };
  const auto fits = [&](const auto& matrix) {
    return matrix.rows == query_rows.size() && matrix.cols == width && matrix.format == kv.format;
  };
  if (!fits(queries) || !fits(out)) {
    throw std::invalid_argument("trie_attention: " + std::to_string(query_rows.size()) +
                                " query rows of " + std::to_string(width) + " " +
                                std::string(name_of(kv.format)) + ", queries " + describe(queries) +
                                ", out " + describe(out));
  }
}

/// Everything that tasks read.
struct Call {
  const AttentionLoops& loops;
  const AttentionShape& shape;
  const TrieView& trie;
  std::span<const uint32_t> query_rows;
  const ConstActivations& queries;
  const KvSpan& kv;
  const Activations& out;
  std::span<const QueryTile> tiles;
  std::span<TileScratch> scratch;  // one a worker

  void run(size_t task, size_t worker) const {
    // Head by head, because neighbouring tiles share keys that are in the cache then; the last tile
    // first, because in a long text it has the most keys.
    const size_t kv_head = task / tiles.size();
    const QueryTile tile = tiles[tiles.size() - 1 - task % tiles.size()];
    const size_t width = shape.query_heads / shape.kv_heads * shape.head_dim;
    TileAttention(loops, shape, trie, kv, kv_head, query_rows.subspan(tile.first, tile.count),
                  scratch[worker])
        .run(queries.row_range(tile.first, tile.count).col_range(kv_head * width, width),
             out.row_range(tile.first, tile.count).col_range(kv_head * width, width));
  }
};

}  // namespace

struct AttentionScratch::Impl {
  std::vector<QueryTile> tiles;
  std::vector<TileScratch> threads;
};

AttentionScratch::AttentionScratch() : impl_(std::make_unique<Impl>()) {}
AttentionScratch::~AttentionScratch() = default;
AttentionScratch::AttentionScratch(AttentionScratch&&) noexcept = default;
AttentionScratch& AttentionScratch::operator=(AttentionScratch&&) noexcept = default;

void trie_attention(ThreadPool& pool, const AttentionShape& shape, const TrieView& trie,
                    std::span<const uint32_t> query_rows, ConstActivations queries,
                    const KvSpan& kv, Activations out, AttentionScratch& scratch) {
  trie_attention_with(usable_isa(), pool, shape, trie, query_rows, queries, kv, out, scratch);
}

void trie_attention_with(Isa isa, ThreadPool& pool, const AttentionShape& shape,
                         const TrieView& trie, std::span<const uint32_t> query_rows,
                         ConstActivations queries, const KvSpan& kv, Activations out,
                         AttentionScratch& scratch) {
  require_shapes(shape, query_rows, queries, kv, out);
  if (query_rows.empty()) return;
  const size_t heads = shape.query_heads / shape.kv_heads;
  const size_t rows_max = std::max<size_t>(kLanesWanted / heads, 1);
  AttentionScratch::Impl& memory = scratch.impl();
  cut_query_tiles(trie, query_rows, rows_max, kExtraKeysMax, memory.tiles);
  if (memory.threads.size() < pool.size()) memory.threads.resize(pool.size());
  for (TileScratch& thread : memory.threads) thread.reserve(rows_max, heads, shape.head_dim);
  const Call call{attention_loops_for(isa, kv.format),
                  shape,
                  trie,
                  query_rows,
                  queries,
                  kv,
                  out,
                  memory.tiles,
                  memory.threads};
  pool.parallel_for(memory.tiles.size() * shape.kv_heads,
                    [&call](size_t task, size_t worker) { call.run(task, worker); });
}

}  // namespace espalier::engine
