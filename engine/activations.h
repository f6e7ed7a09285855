// A view of activations in the number format that matrix products and attention read.
//
// kF32 and kBf16 elements are what they say. A kInt8 element is a byte u that stands for
// scales[row] · (u - 128), u in [1, 255] ("dynamic quantisation per row"): unsigned, because VNNI
// multiplies unsigned by signed bytes.
//
// It owns nothing; whoever made it keeps the memory alive. Copying it is free.
#pragma once

#include <cstddef>
#include <type_traits>

#include "engine/ceil_div.h"
#include "engine/number_format.h"

namespace espalier::engine {

/// What a kInt8 byte of value 0 is.
inline constexpr int kInt8ZeroPoint = 128;

/// Rows begin at multiples of this, and matrix products read whole ones.
inline constexpr size_t kActivationAlignment = 64;

/// Bytes from row to row of a buffer of `cols` columns.
constexpr size_t activation_stride(NumberFormat format, size_t cols) {
  return ceil_div(cols * bytes_of(format), kActivationAlignment) * kActivationAlignment;
}

template <typename Byte>
struct BasicActivations {
  using Scale = std::conditional_t<std::is_const_v<Byte>, const float, float>;

  NumberFormat format = NumberFormat::kF32;
  Byte* data = nullptr;
  size_t rows = 0;
  size_t cols = 0;
  size_t stride = 0;        // in bytes. Whoever writes a whole row zeroes what is left of it
  Scale* scales = nullptr;  // (rows), kInt8 alone

  /// Whether a row has bytes behind its columns that a product would read.
  bool has_padding() const { return cols * bytes_of(format) % kActivationAlignment != 0; }

  Byte* row(size_t r) const { return data + r * stride; }
  /// The `count` rows from row `first`.
  BasicActivations row_range(size_t first, size_t count) const {
    return {format, row(first), count, cols, stride, scales == nullptr ? nullptr : scales + first};
  }
  /// The `count` columns from column `first`.
  BasicActivations col_range(size_t first, size_t count) const {
    return {format, data + first * bytes_of(format), rows, count, stride, scales};
  }

  operator BasicActivations<const Byte>() const  // NOLINT: adding const is harmless
      requires(!std::is_const_v<Byte>) {
    return {format, data, rows, cols, stride, scales};
  }
};

using Activations = BasicActivations<std::byte>;
using ConstActivations = BasicActivations<const std::byte>;

}  // namespace espalier::engine
