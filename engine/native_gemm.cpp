// Matrix products by our own kernels. A product is cut into tasks of a block of rows, which stay in
// the second-level cache, times a run of panels; a task goes panel by panel over its rows, tile by
// tile. What happens to a tile (scaling, adding to the residual stream, SwiGLU) happens while it is
// in the first-level cache.
#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "engine/aligned_buffer.h"
#include "engine/ceil_div.h"
#include "engine/gemm.h"
#include "engine/gemm_loops_tables.h"
#include "engine/gemm_shapes.h"
#include "engine/packed_panels.h"
#include "engine/row_kernels.h"

namespace espalier::engine {
namespace {

/// Tasks a thread gets of one product, about: more than one evens out threads of unequal speed.
constexpr size_t kTasksPerThread = 2;

/// With more tiles to a panel, the hardware's own prefetching is early enough.
constexpr size_t kReadAheadTilesMax = 4;

/// Bytes of activations that a task works on: half of a second-level cache.
size_t row_block_bytes() {
  static const size_t bytes = [] {
    constexpr size_t kSmallest = size_t{256} << 10U;
    const long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return cache > 0 ? std::max(kSmallest, static_cast<size_t>(cache) / 2) : kSmallest;
  }();
  return bytes;
}

/// How one product is cut.
struct Grid {
  size_t block_rows, blocks;
  size_t run_panels, runs;
};

Grid grid_for(size_t rows, size_t row_bytes, size_t panels, size_t tile_rows, size_t threads) {
  Grid grid{};
  const size_t most = std::max(tile_rows, row_block_bytes() / row_bytes / tile_rows * tile_rows);
  // Rows are cut evenly, in whole tiles: 520 rows become 264 + 256, not 512 + 8.
  grid.block_rows = ceil_div(ceil_div(rows, ceil_div(rows, most)), tile_rows) * tile_rows;
  grid.blocks = ceil_div(rows, grid.block_rows);
  const size_t wanted = threads == 1 ? 1 : threads * kTasksPerThread;
  const size_t runs = std::min(panels, ceil_div(wanted, grid.blocks));
  grid.run_panels = ceil_div(panels, runs);
  grid.runs = ceil_div(panels, grid.run_panels);
  return grid;
}

/// Where a tile stands in its product.
struct TilePlace {
  size_t row, rows;
  size_t panel;
};

class NativeGemm final : public GemmBackend {
 public:
  NativeGemm(NumberFormat format, Isa isa)
      : format_(format), isa_(isa), loops_(gemm_loops_for(isa)), kernel_(loops_.kernel(format)) {}

  std::string description() const override {
    return "native " + std::string(name_of(format_)) + " (" + std::string(name_of(isa_)) +
           " kernels)";
  }

  NumberFormat format() const override { return format_; }

  size_t packed_bytes(size_t outputs, size_t inputs) const override {
    return PackedPanels::bytes(format_, outputs, inputs);
  }

  std::unique_ptr<PackedMatrix> pack(ThreadPool& pool,
                                     std::span<const TensorView> stacked) const override {
    const MatrixShape shape = stacked_shape(format_, stacked);
    return std::make_unique<PackedPanels>(pool, format_, stacked_rows(stacked), shape.outputs,
                                          shape.inputs);
  }

  /// Panels hold 16 gates, then the 16 ups that they multiply.
  std::unique_ptr<PackedMatrix> pack_gated(ThreadPool& pool, const TensorView& gate,
                                           const TensorView& up) const override {
    const MatrixShape shape = gated_shape(format_, gate, up);
    const size_t intermediate = shape.outputs / 2;
    std::vector<SourceRow> rows;
    for (size_t first = 0; first < intermediate; first += kPanelWidth / 2) {
      for (const TensorView* tensor : {&gate, &up}) {
        for (size_t row = first; row < first + kPanelWidth / 2; ++row) {
          rows.push_back(row < intermediate ? SourceRow{tensor, row} : SourceRow{});
        }
      }
    }
    return std::make_unique<PackedPanels>(pool, format_, rows, shape.outputs, shape.inputs);
  }

  void multiply(ThreadPool& pool, ConstActivations x, const PackedMatrix& w, size_t first_output,
                MutMatView y, Into into) const override {
    check_product(format_, x, w, first_output, y);
    if (y.rows == 0 || y.cols == 0) return;
    const auto write = into == Into::kAdd ? loops_.add : loops_.store;
    const size_t end_output = first_output + y.cols;
    const size_t first_panel = first_output / kPanelWidth;
    for_each_tile(pool, x, packed_as<PackedPanels>(w), first_panel,
                  ceil_div(end_output, kPanelWidth),
                  [&](const float* tile, const TilePlace& place) {
                    const size_t panel_begin = place.panel * kPanelWidth;
                    const size_t begin = std::max(first_output, panel_begin);
                    const size_t end = std::min(end_output, panel_begin + kPanelWidth);
                    write(tile, place.rows, begin - panel_begin, end - begin,
                          y.row(place.row).data() + (begin - first_output), y.stride);
                  });
  }

  size_t gated_scratch(size_t rows, size_t intermediate) const override {
    return format_ == NumberFormat::kInt8 ? rows * intermediate : 0;
  }

  void multiply_gated(ThreadPool& pool, ConstActivations x, const PackedMatrix& w,
                      const GatedUnit& unit, Activations y,
                      std::span<float> scratch) const override {
    check_gated_product(format_, x, w, unit, y, scratch.size(), gated_scratch(y.rows, y.cols));
    if (y.rows == 0 || y.cols == 0) return;
    const PackedPanels& panels = packed_as<PackedPanels>(w);
    // A row must be whole before it can be quantised.
    const bool quantise = format_ == NumberFormat::kInt8;
    const bool to_bf16 = format_ == NumberFormat::kBf16;
    auto* const out = quantise ? reinterpret_cast<std::byte*>(scratch.data()) : y.data;
    const size_t stride = quantise ? y.cols * sizeof(float) : y.stride;
    const size_t element = to_bf16 ? sizeof(uint16_t) : sizeof(float);
    const GateKernel& kernel = loops_.gate(unit.activation);
    const auto gate = to_bf16 ? kernel.to_bf16 : kernel.to_f32;
    for_each_tile(pool, x, panels, 0, panels.panels(), [&](float* tile, const TilePlace& place) {
      constexpr size_t kColumns = kPanelWidth / 2;
      const size_t column = place.panel * kColumns;
      const size_t columns = std::min(kColumns, y.cols - column);
      if (!unit.bias.empty()) {
        float bias[kPanelWidth] = {};
        std::copy_n(&unit.bias[column], columns, bias);
        std::copy_n(&unit.bias[y.cols + column], columns, bias + kColumns);
        loops_.add_bias(tile, place.rows, bias);
      }
      gate(tile, place.rows, columns, out + place.row * stride + column * element, stride);
    });
    if (!quantise && !y.has_padding()) return;
    const ConstMatView whole(scratch.data(), y.rows, y.cols);
    pool.parallel_for(y.rows, [&](size_t row, size_t) {
      if (quantise) {
        write_row(whole.row(row), y, row);
      } else {
        zero_padding(y, row);
      }
    });
  }

 private:
  /// finish(tile, place) for every tile of x · wᵀ in panels [first_panel, end_panel), as values.
  template <typename Finish>
  void for_each_tile(ThreadPool& pool, ConstActivations x, const PackedPanels& w,
                     size_t first_panel, size_t end_panel, const Finish& finish) const {
    const Grid grid =
        grid_for(x.rows, x.stride, end_panel - first_panel, kernel_.tile_rows, pool.size());
    pool.parallel_for(grid.blocks * grid.runs, [&](size_t task, size_t) {
      // Neighbouring tasks share their weights, the larger operand, while those are in a cache.
      const size_t first_row = task % grid.blocks * grid.block_rows;
      const size_t panel_begin = first_panel + task / grid.blocks * grid.run_panels;
      const ConstActivations block =
          x.row_range(first_row, std::min(grid.block_rows, x.rows - first_row));
      const size_t panel_end = std::min(end_panel, panel_begin + grid.run_panels);
      loops_.begin();
      for (size_t p = panel_begin; p < panel_end; ++p) {
        // After a run's last panel: the run that this thread will most likely get next.
        const size_t next = p + 1 < panel_end ? p + 1 : panel_begin + pool.size() * grid.run_panels;
        const std::byte* const ahead = next < end_panel ? w.panel(next) : nullptr;
        multiply_panel(block, w, p, ahead, [&](float* tile, size_t row, size_t rows) {
          finish(tile, TilePlace{.row = first_row + row, .rows = rows, .panel = p});
        });
      }
      loops_.end();
    });
  }

  /// `next`: the panel to read ahead, or null.
  template <typename Finish>
  void multiply_panel(ConstActivations x, const PackedPanels& w, size_t panel,
                      const std::byte* next, const Finish& finish) const {
    alignas(64) float tile[kTileRowsMax * kPanelWidth];
    const size_t tiles_in_all = ceil_div(x.rows, kernel_.tile_rows);
    ReadAhead ahead;
    if (tiles_in_all <= kReadAheadTilesMax && next != nullptr) {
      ahead = {next, kPanelWidth * 4 / kBufferAlignment / std::min<size_t>(tiles_in_all, 2)};
    }
    size_t rows = 0;
    for (size_t row = 0; row < x.rows; row += rows) {
      // Evenly, because what is left for a last small tile would cost as many loads as a large one.
      const size_t tiles = ceil_div(x.rows - row, kernel_.tile_rows);
      rows = tiles > 2 ? kernel_.tile_rows : ceil_div(x.rows - row, tiles);
      kernel_.product(x.row(row), x.stride, rows, w.panel(panel), w.groups(), ahead, tile);
      // The next tile brings in the other half, further ones nothing.
      ahead = row == 0 && ahead.lines == 1
                  ? ReadAhead{ahead.from + w.groups() * kBufferAlignment, 1}
                  : ReadAhead{};
      if (format_ == NumberFormat::kInt8) {
        loops_.dequantise(tile, rows, w.scales(panel), x.scales + row);
      }
      finish(tile, row, rows);
    }
  }

  NumberFormat format_;
  Isa isa_;
  const GemmLoops& loops_;
  TileKernel kernel_;
};

#if defined(__x86_64__)
const GemmLoops& amx_loops() {
  static const GemmLoops loops = [] {
    GemmLoops amx = kAvx512Bf16GemmLoops;
    amx.bf16 = {amx_bf16, kTileRowsMax};
    amx.int8 = {amx_int8, kTileRowsMax};
    amx.begin = amx_begin;
    amx.end = amx_end;
    return amx;
  }();
  return loops;
}
#endif

}  // namespace

const GemmLoops& gemm_loops_for(Isa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case Isa::kAmx:
      return amx_loops();
    case Isa::kAvx512Bf16:
      return kAvx512Bf16GemmLoops;
    case Isa::kAvx512Vnni:
      return kAvx512VnniGemmLoops;
    case Isa::kAvx512:
      return kAvx512GemmLoops;
    case Isa::kAvx2:
      return kAvx2GemmLoops;
    case Isa::kScalar:
      break;
  }
#endif
  (void)isa;
  return kScalarGemmLoops;
}

#if !defined(__x86_64__)
void amx_multiply_registers(size_t) {}
#endif

std::unique_ptr<GemmBackend> make_native_gemm(NumberFormat format, Isa isa) {
  return std::make_unique<NativeGemm>(format, isa);
}

}  // namespace espalier::engine
