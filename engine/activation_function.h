// The function that a gated MLP puts its gate through.
#pragma once

#include <cstdint>
#include <string_view>

namespace espalier::engine {

enum class ActivationFunction : uint8_t {
  kSilu,      // z / (1 + e^-z)
  kGelu,      // z · (1 + erf(z / √2)) / 2
  kGeluTanh,  // z · (1 + tanh(√(2/π) · (z + 0.044715 z³))) / 2
};

constexpr std::string_view name_of(ActivationFunction function) {
  switch (function) {
    case ActivationFunction::kSilu:
      return "silu";
    case ActivationFunction::kGelu:
      return "gelu";
    case ActivationFunction::kGeluTanh:
      return "gelu_tanh";
  }
  return "unknown";
}

}  // namespace espalier::engine
