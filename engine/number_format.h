// The number formats that activations and packed weights are held in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace espalier::engine {

enum class NumberFormat : uint8_t {
  kF32,
  kBf16,  // the upper half of an f32, rounded to nearest even
  kInt8,  // scaled integers; see engine/activations.h and GemmBackend
};

/// "f32", "bf16", "int8".
constexpr std::string_view name_of(NumberFormat format) {
  switch (format) {
    case NumberFormat::kF32:
      return "f32";
    case NumberFormat::kBf16:
      return "bf16";
    case NumberFormat::kInt8:
      return "int8";
  }
  return "unknown";
}

/// Bytes of one element.
constexpr size_t bytes_of(NumberFormat format) {
  switch (format) {
    case NumberFormat::kF32:
      return 4;
    case NumberFormat::kBf16:
      return 2;
    case NumberFormat::kInt8:
      return 1;
  }
  return 0;
}

}  // namespace espalier::engine
