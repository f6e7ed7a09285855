// The naive twin of the matrix products.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/mat_view.h"

namespace espalier::reference {

/// a · bᵀ for a (M × K) and b (N × K): M × N, row-major, summed in double.
inline std::vector<double> gemm_nt(engine::ConstMatView a, engine::ConstMatView b) {
  std::vector<double> c(a.rows * b.rows);
  for (size_t m = 0; m < a.rows; ++m) {
    for (size_t n = 0; n < b.rows; ++n) {
      double sum = 0;
      for (size_t k = 0; k < a.cols; ++k) sum += double{a.row(m)[k]} * b.row(n)[k];
      c[m * b.rows + n] = sum;
    }
  }
  return c;
}

}  // namespace espalier::reference
