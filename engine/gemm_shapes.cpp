#include "engine/gemm_shapes.h"

#include <cstdint>
#include <stdexcept>
#include <string>

namespace espalier::engine {
namespace {

std::string text(size_t rows, size_t cols) {
  return std::to_string(rows) + " x " + std::to_string(cols);
}

void require(bool holds, const std::string& what) {
  if (!holds) throw std::invalid_argument(what);
}

void check_activations(NumberFormat format, ConstActivations x, const char* name) {
  require(x.format == format, std::string("multiply: ") + name + " is " +
                                  std::string(name_of(x.format)) + ", the backend " +
                                  std::string(name_of(format)));
  require(x.rows == 0 || x.stride >= activation_stride(format, x.cols),
          std::string("multiply: the rows of ") + name + " are not padded");
  require(x.rows == 0 || format != NumberFormat::kInt8 || x.scales != nullptr,
          std::string("multiply: ") + name + " has no scales");
}

}  // namespace

MatrixShape stacked_shape(NumberFormat format, std::span<const TensorView> stacked) {
  require(!stacked.empty(), "pack: no matrix");
  MatrixShape shape;
  for (const TensorView& tensor : stacked) {
    require(tensor.shape.size() == 2, "pack: a tensor of " + std::to_string(tensor.shape.size()) +
                                          " dimensions where a matrix is needed");
    require(&tensor == &stacked.front() || tensor.shape[1] == shape.inputs,
            "pack: matrices of " + std::to_string(shape.inputs) + " and " +
                std::to_string(tensor.shape[1]) + " columns cannot be stacked");
    shape.inputs = tensor.shape[1];
    shape.outputs += tensor.shape[0];
  }
  require(shape.inputs > 0, "pack: matrices without inputs");
  constexpr size_t kInt8InputsMax = INT32_MAX / (255 * 127);  // of the largest magnitudes
  if (format == NumberFormat::kInt8 && shape.inputs > kInt8InputsMax) {
    throw std::runtime_error("int8 cannot sum up " + std::to_string(shape.inputs) +
                             " inputs (at most " + std::to_string(kInt8InputsMax) +
                             "): use bf16 or f32");
  }
  return shape;
}

MatrixShape gated_shape(NumberFormat format, const TensorView& gate, const TensorView& up) {
  const MatrixShape shape = stacked_shape(format, std::span(&gate, 1));
  require(gate.shape == up.shape, "pack_gated: gate and up have different shapes");
  return {2 * shape.outputs, shape.inputs};
}

std::vector<SourceRow> stacked_rows(std::span<const TensorView> stacked) {
  std::vector<SourceRow> rows;
  for (const TensorView& tensor : stacked) {
    for (size_t row = 0; row < tensor.shape[0]; ++row) rows.push_back({&tensor, row});
  }
  return rows;
}

void check_product(NumberFormat format, ConstActivations x, const PackedMatrix& w,
                   size_t first_output, MutMatView y) {
  require(x.cols == w.inputs() && first_output <= w.outputs() &&
              y.cols <= w.outputs() - first_output && x.rows == y.rows,
          "multiply: x is " + text(x.rows, x.cols) + ", w " + text(w.outputs(), w.inputs()) +
              " from output " + std::to_string(first_output) + ", y " + text(y.rows, y.cols));
  check_activations(format, x, "x");
}

void check_gated_product(NumberFormat format, ConstActivations x, const PackedMatrix& w,
                         const GatedUnit& unit, Activations y, size_t scratch,
                         size_t scratch_needed) {
  require(x.cols == w.inputs() && 2 * y.cols == w.outputs() && x.rows == y.rows,
          "multiply_gated: x is " + text(x.rows, x.cols) + ", w " + text(w.outputs(), w.inputs()) +
              ", y " + text(y.rows, y.cols));
  require(unit.bias.empty() || unit.bias.size() == w.outputs(),
          "multiply_gated: bias of " + std::to_string(unit.bias.size()) + ", outputs " +
              std::to_string(w.outputs()));
  require(scratch >= scratch_needed, "multiply_gated: scratch of " + std::to_string(scratch) +
                                         " floats, " + std::to_string(scratch_needed) + " needed");
  check_activations(format, x, "x");
  check_activations(format, y, "y");
}

}  // namespace espalier::engine
