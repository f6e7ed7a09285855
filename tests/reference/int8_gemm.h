// The naive twins of dynamic quantisation and of the products of what it gives
// (engine/activations.h, engine/gemm.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "engine/mat_view.h"

namespace espalier::reference {

/// Numbers as scale · integers[i], integers in [-127, 127].
struct Quantised {
  double scale = 0;
  std::vector<int> integers;
};

/// The largest magnitude becomes 127. A number that is not finite makes the scale NaN. Numbers too
/// small for 127 / largest to be an f32 become zeros.
inline Quantised quantise(std::span<const float> values) {
  Quantised out{.scale = 0, .integers = std::vector<int>(values.size(), 0)};
  float largest = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) {
      out.scale = std::numeric_limits<double>::quiet_NaN();
      return out;
    }
    largest = std::max(largest, std::abs(value));
  }
  out.scale = largest / 127.0f;
  if (largest < 1e-35f) return out;
  // In f32, as the engine, so that ties fall the same way.
  const float to_integer = 127.0f / largest;
  for (size_t i = 0; i < values.size(); ++i) {
    out.integers[i] = static_cast<int>(std::nearbyint(values[i] * to_integer));
  }
  return out;
}

inline std::vector<Quantised> quantise_rows(engine::ConstMatView matrix) {
  std::vector<Quantised> out;
  for (size_t row = 0; row < matrix.rows; ++row) out.push_back(quantise(matrix.row(row)));
  return out;
}

/// a · bᵀ for a (M rows) and b (N rows): M × N, row-major. The sums of integers are exact.
inline std::vector<double> gemm_nt(const std::vector<Quantised>& a,
                                   const std::vector<Quantised>& b) {
  std::vector<double> c;
  c.reserve(a.size() * b.size());
  for (const Quantised& row : a) {
    for (const Quantised& output : b) {
      int64_t sum = 0;
      for (size_t k = 0; k < row.integers.size(); ++k) {
        sum += row.integers[k] * output.integers[k];
      }
      c.push_back(static_cast<double>(sum) * row.scale * output.scale);
    }
  }
  return c;
}

}  // namespace espalier::reference
