// A view of a row-major matrix: `rows` × `cols` elements, rows `stride` elements apart.
// It owns nothing; whoever made it keeps the memory alive. Copying it is free.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

namespace espalier::engine {

template <typename T>
struct MatView {
  T* data = nullptr;
  size_t rows = 0;
  size_t cols = 0;
  size_t stride = 0;

  MatView() = default;
  MatView(T* data_in, size_t rows_in, size_t cols_in, size_t stride_in)
      : data(data_in), rows(rows_in), cols(cols_in), stride(stride_in) {}
  MatView(T* data_in, size_t rows_in, size_t cols_in)
      : MatView(data_in, rows_in, cols_in, cols_in) {}

  /// Row `r`, `cols` elements.
  std::span<T> row(size_t r) const { return {data + r * stride, cols}; }
  /// The `count` rows from row `first`.
  MatView row_range(size_t first, size_t count) const {
    return {data + first * stride, count, cols, stride};
  }
  /// The `count` columns from column `first`.
  MatView col_range(size_t first, size_t count) const {
    return {data + first, rows, count, stride};
  }

  operator MatView<const T>() const  // NOLINT: adding const is harmless
      requires(!std::is_const_v<T>) {
    return {data, rows, cols, stride};
  }
};

using ConstMatView = MatView<const float>;
using MutMatView = MatView<float>;

}  // namespace espalier::engine
