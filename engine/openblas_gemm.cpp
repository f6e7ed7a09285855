// The f32 backend: weights as a plain row-major matrix, products by OpenBLAS on blocks of our own.
#include <algorithm>
#include <stdexcept>

#include "engine/aligned_buffer.h"
#include "engine/ceil_div.h"
#include "engine/gemm.h"
#include "engine/gemm_shapes.h"
#include "engine/row_kernels.h"
#include "engine/sgemm.h"

namespace espalier::engine {
namespace {

/// Blocks a thread gets of one product: more than one evens out threads of unequal speed.
constexpr size_t kBlocksPerThread = 2;
/// Rows in a block at most: its activations stay in the second-level cache while weights stream by.
constexpr size_t kRowsPerBlockMax = 512;
/// Columns in a block at least, and their granularity: OpenBLAS's kernels are 16 wide, and a block
/// must be worth its packing.
constexpr size_t kColumnsPerBlockMin = 64;
constexpr size_t kColumnGranularity = 16;

class F32Matrix final : public PackedMatrix {
 public:
  F32Matrix(size_t outputs, size_t inputs)
      : outputs_(outputs), inputs_(inputs), data_(outputs * inputs) {}

  size_t outputs() const override { return outputs_; }
  size_t inputs() const override { return inputs_; }
  ConstMatView view() const { return {data_.data(), outputs_, inputs_}; }
  float* data() { return data_.data(); }

 private:
  size_t outputs_;
  size_t inputs_;
  AlignedBuffer data_;
};

/// How one product is cut into blocks.
struct Grid {
  size_t rows_per_block, row_blocks;
  size_t columns_per_block, column_blocks;
};

Grid grid_for(size_t rows, size_t columns, size_t threads) {
  const size_t wanted = threads == 1 ? 1 : threads * kBlocksPerThread;
  Grid grid{};
  // Rows are cut evenly: 513 become 257 + 256, not 512 + 1.
  grid.rows_per_block = ceil_div(rows, ceil_div(rows, kRowsPerBlockMax));
  grid.row_blocks = ceil_div(rows, grid.rows_per_block);
  const size_t share = ceil_div(columns, ceil_div(wanted, grid.row_blocks));
  grid.columns_per_block =
      std::max(kColumnsPerBlockMin, ceil_div(share, kColumnGranularity) * kColumnGranularity);
  grid.column_blocks = ceil_div(columns, grid.columns_per_block);
  return grid;
}

class OpenBlasGemm final : public GemmBackend {
 public:
  std::string description() const override {
    return "openblas f32 (" + openblas_kernel_set() + " kernels)";
  }

  NumberFormat format() const override { return NumberFormat::kF32; }

  size_t packed_bytes(size_t outputs, size_t inputs) const override {
    return outputs * inputs * sizeof(float);
  }

  std::unique_ptr<PackedMatrix> pack(ThreadPool& pool,
                                     std::span<const TensorView> stacked) const override {
    const MatrixShape shape = stacked_shape(format(), stacked);
    auto packed = std::make_unique<F32Matrix>(shape.outputs, shape.inputs);
    float* out = packed->data();
    for (const TensorView& tensor : stacked) {
      pool.parallel_for(tensor.shape[0], [&](size_t row, size_t) {
        convert_to_f32(tensor, row * shape.inputs, shape.inputs, out + row * shape.inputs);
      });
      out += tensor.shape[0] * shape.inputs;
    }
    return packed;
  }

  std::unique_ptr<PackedMatrix> pack_gated(ThreadPool& pool, const TensorView& gate,
                                           const TensorView& up) const override {
    gated_shape(format(), gate, up);
    const TensorView stacked[] = {gate, up};
    return pack(pool, stacked);
  }

  void multiply(ThreadPool& pool, ConstActivations x, const PackedMatrix& w, size_t first_output,
                MutMatView y, Into into) const override {
    check_product(format(), x, w, first_output, y);
    if (y.rows == 0 || y.cols == 0) return;
    const ConstMatView weights = packed_as<F32Matrix>(w).view().row_range(first_output, y.cols);
    const ConstMatView rows(reinterpret_cast<const float*>(x.data), x.rows, x.cols,
                            x.stride / sizeof(float));
    const float beta = into == Into::kAdd ? 1.0f : 0.0f;
    const Grid grid = grid_for(y.rows, y.cols, pool.size());
    pool.parallel_for(grid.row_blocks * grid.column_blocks, [&](size_t task, size_t) {
      // Neighbouring tasks share their weights, the larger operand, while those are in a cache.
      const size_t row = task % grid.row_blocks * grid.rows_per_block;
      const size_t column = task / grid.row_blocks * grid.columns_per_block;
      const size_t count = std::min(grid.rows_per_block, y.rows - row);
      const size_t columns = std::min(grid.columns_per_block, y.cols - column);
      sgemm_nt(1.0f, rows.row_range(row, count), weights.row_range(column, columns), beta,
               y.row_range(row, count).col_range(column, columns));
    });
  }

  size_t gated_scratch(size_t rows, size_t intermediate) const override {
    return rows * 2 * intermediate;
  }

  void multiply_gated(ThreadPool& pool, ConstActivations x, const PackedMatrix& w,
                      const GatedUnit& unit, Activations y,
                      std::span<float> scratch) const override {
    check_gated_product(format(), x, w, unit, y, scratch.size(), gated_scratch(y.rows, y.cols));
    const MutMatView gate_up(scratch.data(), y.rows, 2 * y.cols);
    multiply(pool, x, w, 0, gate_up, Into::kStore);
    pool.parallel_for(y.rows, [&](size_t row, size_t) {
      if (!unit.bias.empty()) add(gate_up.row(row), unit.bias);
      gate(unit.activation, gate_up.row(row), {reinterpret_cast<float*>(y.row(row)), y.cols});
      zero_padding(y, row);
    });
  }
};

}  // namespace

std::unique_ptr<GemmBackend> make_openblas_gemm() { return std::make_unique<OpenBlasGemm>(); }

}  // namespace espalier::engine
