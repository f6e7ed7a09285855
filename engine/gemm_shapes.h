// The checks that all GEMM backends make of what they are given. Shapes that disagree are a mistake
// in the program or in a model file; memory would be overrun.
#pragma once

#include <cstddef>
#include <span>

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

/// Throw std::invalid_argument with the shapes unless GemmBackend::multiply()'s
/// (multiply_gated()'s) arguments are as it says.
void check_product(NumberFormat format, ConstActivations x, const PackedMatrix& w,
                   size_t first_output, MutMatView y);
void check_gated_product(NumberFormat format, ConstActivations x, const PackedMatrix& w,
                         Activations y, size_t scratch, size_t scratch_needed);

}  // namespace espalier::engine
