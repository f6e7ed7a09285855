// Attention in bf16 with AMX (Intel 64 and IA-32 Architectures Software Developer's Manual, volume
// 1, chapter 18); softmax and packing with AVX-512. It must not use inline functions of other
// headers: see fast_exp.h.
//
// Every tile register holds 16 rows of 64 bytes, and every product is of whole ones: 16 × 32 bf16
// times 32 × 16. What fills them up is zero, or leads to results that nobody reads.
#include <immintrin.h>

#include <cstddef>

#include "engine/attention_bf16_pairs.h"
#include "engine/attention_loops_tables.h"

namespace espalier::engine {
namespace {

constexpr size_t kTileRows = 16;
constexpr size_t kTileDwords = 16;  // a row: f32, or pairs of bf16

static_assert(kKeyRange % (2 * kTileDwords) == 0);
static_assert(kHeadDimStep == 2 * kTileDwords);

size_t whole_tiles(size_t n) { return (n + kTileRows - 1) / kTileRows * kTileRows; }

/// The tile registers, from here to the end of the scope.
class Tiles {
 public:
  Tiles() {
    struct alignas(64) {
      uint8_t palette = 1;
      uint8_t start_row = 0;
      uint8_t reserved[14] = {};
      uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } config;
    static_assert(sizeof(config) == 64);
    // The compiler's intrinsic admits to reading 8 of the 64 bytes.
    __asm__ volatile("" : : "r"(&config) : "memory");
    _tile_loadconfig(&config);
  }
  ~Tiles() { _tile_release(); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
};

/// g++ 12's tile intrinsics do not say that they read memory.
[[gnu::always_inline]] inline void finish_stores() { __asm__ volatile("" ::: "memory"); }

/// A matrix of dwords.
struct Dwords {
  const void* data;
  size_t stride;  // in dwords

  [[gnu::always_inline]] const void* at(size_t row, size_t column) const {
    return static_cast<const std::byte*>(data) + (row * stride + column) * sizeof(float);
  }
  [[gnu::always_inline]] long stride_bytes() const {
    return static_cast<long>(stride * sizeof(float));
  }
};

/// out = left · right for kRows × kColumns tiles, from row `row` of left and column `column` of
/// right; `depth` in dwords, a multiple of 16.
template <size_t kRows, size_t kColumns>
[[gnu::always_inline]] inline void multiply_tiles(Dwords left, Dwords right, size_t depth,
                                                  size_t row, size_t column, float* out,
                                                  size_t out_stride) {
  _tile_zero(0);
  if constexpr (kColumns == 2) _tile_zero(1);
  if constexpr (kRows == 2) _tile_zero(2);
  if constexpr (kRows == 2 && kColumns == 2) _tile_zero(3);
  for (size_t i = 0; i < depth; i += kTileDwords) {
    _tile_loadd(4, left.at(row, i), left.stride_bytes());
    if constexpr (kRows == 2) _tile_loadd(5, left.at(row + kTileRows, i), left.stride_bytes());
    _tile_loadd(6, right.at(i, column), right.stride_bytes());
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kRows == 2) _tile_dpbf16ps(2, 5, 6);
    if constexpr (kColumns == 2) {
      _tile_loadd(7, right.at(i, column + kTileDwords), right.stride_bytes());
      _tile_dpbf16ps(1, 4, 7);
      if constexpr (kRows == 2) _tile_dpbf16ps(3, 5, 7);
    }
  }
  const long stride = static_cast<long>(out_stride * sizeof(float));
  float* const below = out + kTileRows * out_stride;
  _tile_stored(0, out, stride);
  if constexpr (kColumns == 2) _tile_stored(1, out + kTileDwords, stride);
  if constexpr (kRows == 2) _tile_stored(2, below, stride);
  if constexpr (kRows == 2 && kColumns == 2) _tile_stored(3, below + kTileDwords, stride);
}

/// tile.scores (slots × width) = keys · queries.
void multiply_keys(const AttentionTile& tile, const AttentionStep& step, size_t width) {
  copy_rows(step.keys, step.slots, tile.head_dim * 2, tile.padded_dim * 2,
            reinterpret_cast<std::byte*>(tile.keys));
  finish_stores();
  const Dwords keys = {tile.keys, tile.padded_dim / 2};
  const Dwords queries = {tile.queries + step.first_lane, tile.lane_stride};
  const size_t depth = tile.padded_dim / 2;
  const size_t slots = whole_tiles(step.slots);
  size_t lane = 0;
  for (; lane + 2 * kTileDwords <= width; lane += 2 * kTileDwords) {
    float* const out = tile.scores + lane;
    size_t slot = 0;
    for (; slot + 2 * kTileRows <= slots; slot += 2 * kTileRows) {
      multiply_tiles<2, 2>(keys, queries, depth, slot, lane, out + slot * width, width);
    }
    if (slot < slots) {
      multiply_tiles<1, 2>(keys, queries, depth, slot, lane, out + slot * width, width);
    }
  }
  for (size_t slot = 0; lane < width && slot < slots; slot += kTileRows) {
    float* const out = tile.scores + slot * width + lane;
    multiply_tiles<1, 1>(keys, queries, depth, slot, lane, out, width);
  }
  finish_stores();
}

/// Pairs of weights lie by slot in tile.scores, `width` lanes apart; the first operand of a tile
/// product wants them by lane. Weights beyond the last pair are 0.
void take_weights(const AttentionTile& tile, size_t pairs, size_t width, size_t lane, size_t lanes,
                  float* out) {
  const std::byte* rows[kKeyRange / 2];
  for (size_t pair = 0; pair < pairs; ++pair) {
    rows[pair] = reinterpret_cast<const std::byte*>(tile.scores + pair * width + lane);
  }
  transpose_dwords(rows, pairs, lanes, out, kKeyRange / 2);
}

/// sums of the chain's lanes = sums · rescale + weights · values.
void multiply_values(const AttentionTile& tile, const AttentionStep& step, size_t width) {
  const size_t pairs = whole_tiles((step.slots + 1) / 2);
  // Fill up the last tile.
  for (size_t pair = (step.slots + 1) / 2; pair < pairs; ++pair) {
    __builtin_memset(tile.scores + pair * width, 0, width * sizeof(float));
    __builtin_memset(tile.values + pair * tile.padded_dim, 0, tile.padded_dim * sizeof(float));
  }
  alignas(64) float weights[2 * kTileRows * kKeyRange / 2];
  alignas(64) float products[2 * kTileRows * 2 * kTileDwords];
  const Dwords left = {weights, kKeyRange / 2};
  const Dwords right = {tile.values, tile.padded_dim};
  for (size_t lane = 0; lane < width; lane += 2 * kTileRows) {
    const bool two = lane + 2 * kTileRows <= width;
    take_weights(tile, pairs, width, lane, two ? 2 * kTileRows : kTileRows, weights);
    finish_stores();
    for (size_t column = 0; column < tile.padded_dim; column += 2 * kTileDwords) {
      if (two) {
        multiply_tiles<2, 2>(left, right, pairs, 0, column, products, 2 * kTileDwords);
      } else {
        multiply_tiles<1, 2>(left, right, pairs, 0, column, products, 2 * kTileDwords);
      }
      finish_stores();
      // The lanes that fill up the last tile belong to other chains.
      for (size_t l = 0; l < 2 * kTileRows && lane + l < step.lanes; ++l) {
        const size_t at = step.first_lane + lane + l;
        const FloatVector rescale = broadcast(tile.rescale[at]);
        float* const sums = tile.sums + at * tile.padded_dim + column;
        const float* const product = products + l * 2 * kTileDwords;
        store(sums, multiply_add(load(product), load(sums), rescale));
        store(sums + kTileDwords,
              multiply_add(load(product + kTileDwords), load(sums + kTileDwords), rescale));
      }
    }
  }
}

void pack_queries(const AttentionTile& tile, const std::byte* const* lanes) {
  pack_paired_queries(tile, lanes);
  for (size_t pair = tile.head_dim / 2; pair < tile.padded_dim / 2; ++pair) {
    __builtin_memset(tile.queries + pair * tile.lane_stride, 0, tile.lane_stride * sizeof(float));
  }
}

void attend(const AttentionTile& tile, const AttentionStep& step, float scale) {
  const size_t width = whole_tiles(step.lanes);
  const Tiles registers;
  multiply_keys(tile, step, width);
  softmax<PairedWeights>(tile, step, width, scale);
  pair_values(tile, step);
  multiply_values(tile, step, width);
}

}  // namespace

const AttentionLoops kAmxAttentionLoops = {pack_queries, attend, write_bf16};

}  // namespace espalier::engine
