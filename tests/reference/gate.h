// The naive twin of engine::gate and of what GemmBackend::multiply_gated() does between its
// products.
#pragma once

#include <cmath>
#include <cstddef>
#include <numbers>
#include <span>
#include <vector>

#include "engine/activation_function.h"

namespace espalier::reference {

inline double activation(engine::ActivationFunction function, double z) {
  switch (function) {
    case engine::ActivationFunction::kSilu:
      return z / (1.0 + std::exp(-z));
    case engine::ActivationFunction::kGelu:
      return 0.5 * z *
             std::erfc(-z / std::numbers::sqrt2);  // 1 + erf(x) = erfc(-x), exact in tails
    case engine::ActivationFunction::kGeluTanh: {
      const double u = std::sqrt(2.0 / std::numbers::pi) * (z + 0.044715 * z * z * z);
      return z / (1.0 + std::exp(-2.0 * u));  // z · (1 + tanh(u)) / 2
    }
  }
  return std::nan("");
}

/// activation(gate[i]) · up[i] in double; `gate_up` holds gate, then up.
inline std::vector<float> gate(engine::ActivationFunction function,
                               std::span<const float> gate_up) {
  const size_t n = gate_up.size() / 2;
  std::vector<float> out(n);
  for (size_t i = 0; i < n; ++i) {
    out[i] = static_cast<float>(activation(function, gate_up[i]) * gate_up[n + i]);
  }
  return out;
}

}  // namespace espalier::reference
