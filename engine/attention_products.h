// Matrix products in registers: the two of attention, as templates over how numbers multiply.
//
// Included only by files that are compiled once for each instruction set; internal linkage is
// essential, see fast_exp.h. An element of four bytes is an f32 or a pair of bf16.
#pragma once

#include <cstddef>

#include "engine/float_vector.h"

namespace espalier::engine {
namespace {

/// Rows and vectors of a block of results: as many as there are registers for.
constexpr size_t kBlockRows = 6;
constexpr size_t kBlockVectors = kVectorFloats == 16 ? 4 : 2;

/// Left operand whose rows are in memory anywhere.
struct ScatteredRows {
  const std::byte* const* rows;

  [[gnu::always_inline]] float at(size_t row, size_t i) const {
    float element;
    __builtin_memcpy(&element, rows[row] + i * sizeof(float), sizeof(element));
    return element;
  }
  [[gnu::always_inline]] ScatteredRows from(size_t row) const { return {rows + row}; }
};

/// Left operand that is held transposed: its rows are columns, `stride` elements apart.
struct Columns {
  const float* first;
  size_t stride;

  [[gnu::always_inline]] float at(size_t row, size_t i) const { return first[i * stride + row]; }
  [[gnu::always_inline]] Columns from(size_t row) const { return {first + row, stride}; }
};

struct F32Product {
  /// sum + a · b
  [[gnu::always_inline]] static FloatVector add(FloatVector sum, FloatVector a, FloatVector b) {
    return multiply_add(sum, a, b);
  }
};

/// What a product is added to.
struct Zero {
  [[gnu::always_inline]] FloatVector start(const float*, size_t) const { return FloatVector{}; }
};

/// The results so far, each row times a factor of its own.
struct Rescaled {
  const float* factors;

  [[gnu::always_inline]] FloatVector start(const float* out, size_t row) const {
    return load(out) * broadcast(factors[row]);
  }
};

struct RightMatrix {
  const float* data;
  size_t stride;
};

struct OutMatrix {
  float* data;
  size_t stride;
};

/// One block of results: kRows × (kVectors · kVectorFloats), from row `row` of left and out.
template <typename Product, size_t kRows, size_t kVectors, typename Left, typename Start>
[[gnu::always_inline]] inline void multiply_block(Left left, size_t depth, RightMatrix right,
                                                  Start start, size_t row, OutMatrix out) {
  FloatVector sums[kRows][kVectors];
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (size_t v = 0; v < kVectors; ++v) {
      sums[r][v] = start.start(out.data + (row + r) * out.stride + v * kVectorFloats, row + r);
    }
  }
  const Left rows = left.from(row);
  for (size_t i = 0; i < depth; ++i) {
    FloatVector columns[kVectors];
#pragma GCC unroll 8
    for (size_t v = 0; v < kVectors; ++v) {
      columns[v] = load(right.data + i * right.stride + v * kVectorFloats);
    }
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) {
      const FloatVector element = broadcast(rows.at(r, i));
#pragma GCC unroll 8
      for (size_t v = 0; v < kVectors; ++v) {
        sums[r][v] = Product::add(sums[r][v], element, columns[v]);
      }
    }
  }
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (size_t v = 0; v < kVectors; ++v) {
      store(out.data + (row + r) * out.stride + v * kVectorFloats, sums[r][v]);
    }
  }
}

/// kVectors vectors of all rows.
template <typename Product, size_t kVectors, typename Left, typename Start>
void multiply_strip(Left left, size_t rows, size_t depth, RightMatrix right, Start start,
                    OutMatrix out) {
  size_t row = 0;
  for (; row + kBlockRows <= rows; row += kBlockRows) {
    multiply_block<Product, kBlockRows, kVectors>(left, depth, right, start, row, out);
  }
  switch (rows - row) {
    case 5:
      return multiply_block<Product, 5, kVectors>(left, depth, right, start, row, out);
    case 4:
      return multiply_block<Product, 4, kVectors>(left, depth, right, start, row, out);
    case 3:
      return multiply_block<Product, 3, kVectors>(left, depth, right, start, row, out);
    case 2:
      return multiply_block<Product, 2, kVectors>(left, depth, right, start, row, out);
    case 1:
      return multiply_block<Product, 1, kVectors>(left, depth, right, start, row, out);
    default:
      return;
  }
}

/// out (rows × columns) = start + left (rows × depth) · right (depth × columns), each result summed
/// in the order of depth. `columns`: a multiple of kVectorFloats.
template <typename Product, typename Left, typename Start>
void multiply(Left left, size_t rows, size_t depth, RightMatrix right, size_t columns, Start start,
              OutMatrix out) {
  constexpr size_t kWide = kBlockVectors * kVectorFloats;
  size_t column = 0;
  const auto strip = [&](auto run, size_t width) {
    run(RightMatrix{right.data + column, right.stride}, OutMatrix{out.data + column, out.stride});
    column += width;
  };
  while (column + kWide <= columns) {
    strip(
        [&](RightMatrix r, OutMatrix o) {
          multiply_strip<Product, kBlockVectors>(left, rows, depth, r, start, o);
        },
        kWide);
  }
  while (column + 2 * kVectorFloats <= columns) {
    strip([&](RightMatrix r,
              OutMatrix o) { multiply_strip<Product, 2>(left, rows, depth, r, start, o); },
          2 * kVectorFloats);
  }
  while (column < columns) {
    strip([&](RightMatrix r,
              OutMatrix o) { multiply_strip<Product, 1>(left, rows, depth, r, start, o); },
          kVectorFloats);
  }
}

}  // namespace
}  // namespace espalier::engine
