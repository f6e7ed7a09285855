// The f32 backend: weights as a plain row-major matrix, products by OpenBLAS on blocks of our own.
#include <algorithm>
#include <stdexcept>

#include "engine/aligned_buffer.h"
#include "engine/gemm.h"
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

constexpr size_t ceil_div(size_t a, size_t b) { return (a + b - 1) / b; }

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

/// The shape that the matrices of `stacked` have together.
struct StackedShape {
  size_t outputs = 0;
  size_t inputs = 0;
};

StackedShape stacked_shape(std::span<const TensorView> stacked) {
  if (stacked.empty()) throw std::invalid_argument("pack: no matrix");
  StackedShape shape;
  for (const TensorView& tensor : stacked) {
    if (tensor.shape.size() != 2) {
      throw std::invalid_argument("pack: a tensor of " + std::to_string(tensor.shape.size()) +
                                  " dimensions where a matrix is needed");
    }
    if (&tensor != &stacked.front() && tensor.shape[1] != shape.inputs) {
      throw std::invalid_argument("pack: matrices of " + std::to_string(shape.inputs) + " and " +
                                  std::to_string(tensor.shape[1]) + " columns cannot be stacked");
    }
    shape.inputs = tensor.shape[1];
    shape.outputs += tensor.shape[0];
  }
  return shape;
}

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

  size_t packed_bytes(size_t outputs, size_t inputs) const override {
    return outputs * inputs * sizeof(float);
  }

  std::unique_ptr<PackedMatrix> pack(std::span<const TensorView> stacked) const override {
    const StackedShape shape = stacked_shape(stacked);
    auto packed = std::make_unique<F32Matrix>(shape.outputs, shape.inputs);
    float* out = packed->data();
    for (const TensorView& tensor : stacked) {
      const size_t elements = tensor.shape[0] * tensor.shape[1];
      convert_to_f32(tensor, 0, elements, out);
      out += elements;
    }
    return packed;
  }

  void multiply(ThreadPool& pool, ConstMatView x, const PackedMatrix& w,
                MutMatView y) const override {
    const auto* const packed = dynamic_cast<const F32Matrix*>(&w);
    if (packed == nullptr) throw std::invalid_argument("multiply: packed by another backend");
    if (x.cols != w.inputs() || y.cols != w.outputs() || x.rows != y.rows) {
      throw std::invalid_argument("multiply: x is " + std::to_string(x.rows) + " x " +
                                  std::to_string(x.cols) + ", w " + std::to_string(w.outputs()) +
                                  " x " + std::to_string(w.inputs()) + ", y " +
                                  std::to_string(y.rows) + " x " + std::to_string(y.cols));
    }
    if (y.rows == 0 || y.cols == 0) return;
    const ConstMatView weights = packed->view();
    const Grid grid = grid_for(y.rows, y.cols, pool.size());
    pool.parallel_for(grid.row_blocks * grid.column_blocks, [&](size_t task, size_t) {
      // Neighbouring tasks share their weights, the larger operand, while those are in a cache.
      const size_t row = task % grid.row_blocks * grid.rows_per_block;
      const size_t column = task / grid.row_blocks * grid.columns_per_block;
      const size_t rows = std::min(grid.rows_per_block, y.rows - row);
      const size_t columns = std::min(grid.columns_per_block, y.cols - column);
      sgemm_nt(1.0f, x.row_range(row, rows), weights.row_range(column, columns), 0.0f,
               y.row_range(row, rows).col_range(column, columns));
    });
  }
};

}  // namespace

std::unique_ptr<GemmBackend> make_openblas_gemm() { return std::make_unique<OpenBlasGemm>(); }

}  // namespace espalier::engine
