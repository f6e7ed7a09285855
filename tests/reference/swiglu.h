// The naive twin of engine::swiglu.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace espalier::reference {

/// silu(gate[i]) · up[i] with silu(z) = z / (1 + e^-z), in double; `gate_up` holds gate, then up.
inline std::vector<float> swiglu(std::span<const float> gate_up) {
  const size_t n = gate_up.size() / 2;
  std::vector<float> out(n);
  for (size_t i = 0; i < n; ++i) {
    const double gate = gate_up[i];
    out[i] = static_cast<float>(gate / (1.0 + std::exp(-gate)) * gate_up[n + i]);
  }
  return out;
}

}  // namespace espalier::reference
