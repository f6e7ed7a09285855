// AMX: products of 16 × 64-byte tiles of x with tiles of a panel, 2 × 2 of them at a time, so that
// each tile that is loaded is used twice (Intel, "Intel 64 and IA-32 Architectures Optimization
// Reference Manual", section on AMX). A panel's groups of inputs, 16 of them by 16 outputs, are a
// right-hand tile as they lie.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "engine/gemm_loops_tables.h"

namespace espalier::engine {
namespace {

constexpr size_t kTileRows = 16;
constexpr size_t kRowBytes = 64;
/// Groups of inputs in a tile.
constexpr size_t kGroups = kRowBytes / 4;
/// Bytes from one group of a panel to the next.
constexpr size_t kGroupBytes = 4 * kPanelWidth;

// Tiles 0 to 3: sums, row of tiles × 2 + column. 4, 5: x. 6, 7: the panel.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t bytes_per_row[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

/// For `rows` rows of x, 1 to 32.
void configure(size_t rows) {
  TileConfig config;
  const auto upper = static_cast<uint8_t>(rows < kTileRows ? rows : kTileRows);
  // A tile without rows is not allowed; the lower half is not touched then.
  const auto lower = static_cast<uint8_t>(rows > kTileRows ? rows - kTileRows : 1);
  const uint8_t rows_of_tile[8] = {upper, upper, lower, lower, upper, lower, kGroups, kGroups};
  for (size_t tile = 0; tile < 8; ++tile) {
    config.rows[tile] = rows_of_tile[tile];
    config.bytes_per_row[tile] = kRowBytes;
  }
  // The compiler's intrinsic admits to reading 8 of the 64 bytes.
  __asm__ volatile("" : : "r"(&config) : "memory");
  _tile_loadconfig(&config);
}

template <bool kBytes, bool kLower>
void multiply(const std::byte* x, size_t x_stride, const std::byte* panel, size_t groups,
              ReadAhead ahead, std::byte* tile) {
  const std::byte* const lower = x + kTileRows * x_stride;
  _tile_zero(0);
  _tile_zero(1);
  if (kLower) {
    _tile_zero(2);
    _tile_zero(3);
  }
  for (size_t group = 0; group < groups; group += kGroups) {
    for (size_t line = 0; line < kGroups * ahead.lines; ++line) {
      _mm_prefetch(reinterpret_cast<const char*>(ahead.from), _MM_HINT_T1);
      ahead.from += kRowBytes;
    }
    _tile_loadd(6, panel + group * kGroupBytes, kGroupBytes);
    _tile_loadd(7, panel + group * kGroupBytes + kRowBytes, kGroupBytes);
    _tile_loadd(4, x + group * 4, x_stride);
    if (kBytes) {
      _tile_dpbusd(0, 4, 6);
      _tile_dpbusd(1, 4, 7);
    } else {
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
    }
    if (kLower) {
      _tile_loadd(5, lower + group * 4, x_stride);
      if (kBytes) {
        _tile_dpbusd(2, 5, 6);
        _tile_dpbusd(3, 5, 7);
      } else {
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
      }
    }
  }
  constexpr size_t kTileStride = 4 * kPanelWidth;
  _tile_stored(0, tile, kTileStride);
  _tile_stored(1, tile + kRowBytes, kTileStride);
  if (kLower) {
    _tile_stored(2, tile + kTileRows * kTileStride, kTileStride);
    _tile_stored(3, tile + kTileRows * kTileStride + kRowBytes, kTileStride);
  }
}

template <bool kBytes>
void multiply_rows(const std::byte* x, size_t x_stride, size_t rows, const std::byte* panel,
                   size_t groups, ReadAhead ahead, void* tile) {
  const bool whole = rows == kTileRowsMax;  // what begin() has configured
  if (!whole) configure(rows);
  if (rows > kTileRows) {
    multiply<kBytes, true>(x, x_stride, panel, groups, ahead, static_cast<std::byte*>(tile));
  } else {
    multiply<kBytes, false>(x, x_stride, panel, groups, ahead, static_cast<std::byte*>(tile));
  }
  if (!whole) configure(kTileRowsMax);
}

}  // namespace

void amx_begin() { configure(kTileRowsMax); }

void amx_end() { _tile_release(); }

void amx_bf16(const std::byte* x, size_t x_stride, size_t rows, const std::byte* panel,
              size_t groups, ReadAhead ahead, void* tile) {
  multiply_rows<false>(x, x_stride, rows, panel, groups, ahead, tile);
}

void amx_int8(const std::byte* x, size_t x_stride, size_t rows, const std::byte* panel,
              size_t groups, ReadAhead ahead, void* tile) {
  multiply_rows<true>(x, x_stride, rows, panel, groups, ahead, tile);
}

void amx_multiply_registers(size_t rounds) {
  configure(kTileRowsMax);
  for (size_t round = 0; round < rounds; ++round) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
}

}  // namespace espalier::engine
