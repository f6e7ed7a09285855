// What all GEMM backends ask of, and check about, what they are given. Shapes that disagree are a
// mistake in the program or in a model file; memory would be overrun.
#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>
#include <vector>

#include "engine/gemm.h"

namespace espalier::engine {

struct MatrixShape {
  size_t outputs = 0;
  size_t inputs = 0;
};

/// The shape that the matrices of `stacked` have together. Throws std::invalid_argument, and
/// std::runtime_error with advice when `format` cannot sum up so many inputs.
MatrixShape stacked_shape(NumberFormat format, std::span<const TensorView> stacked);

/// The same for the two of a gated MLP, which must be equal.
MatrixShape gated_shape(NumberFormat format, const TensorView& gate, const TensorView& up);

/// A row of a tensor that becomes an output of a packed matrix; `tensor` null: an output of zeros.
struct SourceRow {
  const TensorView* tensor = nullptr;
  size_t row = 0;
};

/// The rows of the matrices of `stacked`, one matrix below the other.
std::vector<SourceRow> stacked_rows(std::span<const TensorView> stacked);

/// `w` as the backend's own class. Throws std::invalid_argument when another one packed it.
template <typename Packed>
const Packed& packed_as(const PackedMatrix& w) {
  const auto* const packed = dynamic_cast<const Packed*>(&w);
  if (packed == nullptr) throw std::invalid_argument("multiply: packed by another backend");
  return *packed;
}

/// Throw std::invalid_argument with the shapes unless GemmBackend::multiply()'s
/// (multiply_gated()'s) arguments are as it says.
void check_product(NumberFormat format, ConstActivations x, const PackedMatrix& w,
                   size_t first_output, MutMatView y);
void check_gated_product(NumberFormat format, ConstActivations x, const PackedMatrix& w,
                         const GatedUnit& unit, Activations y, size_t scratch,
                         size_t scratch_needed);

}  // namespace espalier::engine
