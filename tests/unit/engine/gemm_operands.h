// What the tests of matrix products multiply: tensors and activations with memory of their own, and
// the answers of the naive twins.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "engine/activations.h"
#include "engine/aligned_buffer.h"
#include "engine/mat_view.h"
#include "engine/safetensors.h"
#include "tests/reference/bf16.h"
#include "tests/reference/gemm.h"
#include "tests/reference/int8_gemm.h"
#include "tests/unit/engine/random_matrix.h"

namespace espalier::engine {

inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

/// A tensor with bytes of its own, one off any alignment, as in a file.
struct OwnedTensor {
  std::vector<std::byte> bytes;
  TensorView view;

  /// `values` must be exact in `dtype`, and in F16 normal numbers or 0.
  OwnedTensor(DataType dtype, std::vector<size_t> shape, std::span<const float> values)
      : bytes(values.size() * bytes_of(dtype) + 1) {
    for (size_t i = 0; i < values.size(); ++i) {
      const uint32_t encoded = encode(dtype, values[i]);
      std::memcpy(bytes.data() + 1 + i * bytes_of(dtype), &encoded, bytes_of(dtype));
    }
    view = {dtype, std::move(shape), std::span<const std::byte>(bytes).subspan(1)};
  }
  OwnedTensor(OwnedTensor&&) = default;  // moving a vector keeps its memory, so `view` stays right
  OwnedTensor(const OwnedTensor&) = delete;

 private:
  static uint32_t encode(DataType dtype, float value) {
    const uint32_t bits = bits_of(value);
    if (dtype == DataType::kF32) return bits;
    if (dtype == DataType::kBF16) return bits >> 16;
    const uint32_t sign = bits >> 16 & 0x8000u;
    const uint32_t exponent_and_fraction = (bits & 0x7fffffffu) >> 13;
    return value == 0 ? sign : sign | (exponent_and_fraction - ((127 - 15) << 10));
  }
};

/// Random weights (outputs × inputs) as a stack of an F32, a BF16 and an F16 matrix.
struct StackedWeights {
  std::vector<float> values;
  size_t outputs, inputs;
  std::vector<OwnedTensor> tensors;
  std::vector<TensorView> views;

  StackedWeights(size_t outputs_in, size_t inputs_in, uint32_t seed)
      : values(random_floats(outputs_in * inputs_in, seed)),
        outputs(outputs_in),
        inputs(inputs_in) {
    const size_t third = outputs / 3;
    const std::pair<DataType, size_t> parts[] = {
        {DataType::kF32, third}, {DataType::kBF16, third}, {DataType::kF16, outputs - 2 * third}};
    size_t first = 0;
    for (const auto& [dtype, count] : parts) {
      if (count == 0) continue;
      const std::span<float> part = std::span(values).subspan(first * inputs, count * inputs);
      // Sixteenths are exact in all three.
      if (dtype == DataType::kBF16) std::ranges::transform(part, part.begin(), to_bf16_exactly);
      if (dtype == DataType::kF16) std::ranges::transform(part, part.begin(), to_sixteenths);
      tensors.emplace_back(dtype, std::vector<size_t>{count, inputs}, part);
      first += count;
    }
    for (const OwnedTensor& tensor : tensors) views.push_back(tensor.view);
  }

  ConstMatView view() const { return {values.data(), outputs, inputs}; }

 private:
  static float to_bf16_exactly(float x) { return reference::to_bf16(x); }
  static float to_sixteenths(float x) { return std::round(x * 16.0f) / 16.0f; }
};

/// Activations with memory of their own, which ends where the last row does.
struct OwnedActivations {
  AlignedBuffer memory;
  std::vector<float> scales;
  Activations view;

  /// All bits set, which is NaN in f32 and bf16. Rows are `apart` more bytes apart than they must.
  OwnedActivations(NumberFormat format, size_t rows, size_t cols, size_t apart = 0)
      : memory(rows * (activation_stride(format, cols) + apart) / sizeof(float)), scales(rows) {
    view = {.format = format,
            .data = reinterpret_cast<std::byte*>(memory.data()),
            .rows = rows,
            .cols = cols,
            .stride = activation_stride(format, cols) + apart,
            .scales = format == NumberFormat::kInt8 ? scales.data() : nullptr};
    if (memory.size() > 0) std::memset(view.data, 0xff, rows * view.stride);
  }

  /// `values` as the twins round them.
  OwnedActivations(NumberFormat format, ConstMatView values, size_t apart = 0)
      : OwnedActivations(format, values.rows, values.cols, apart) {
    for (size_t row = 0; row < values.rows; ++row) fill(row, values.row(row));
  }

 private:
  void fill(size_t row, std::span<const float> values) {
    std::byte* const out = view.row(row);
    std::memset(out, 0, activation_stride(view.format, view.cols));
    if (view.format == NumberFormat::kInt8) {
      const reference::Quantised quantised = reference::quantise(values);
      scales[row] = static_cast<float>(quantised.scale);
      for (size_t i = 0; i < values.size(); ++i) {
        out[i] = static_cast<std::byte>(quantised.integers[i] + kInt8ZeroPoint);
      }
      return;
    }
    const size_t size = bytes_of(view.format);
    for (size_t i = 0; i < values.size(); ++i) {
      const float value = size == 2 ? reference::to_bf16(values[i]) : values[i];
      const uint32_t bits = size == 2 ? bits_of(value) >> 16 : bits_of(value);
      std::memcpy(out + i * size, &bits, size);
    }
  }
};

/// What row `row` stands for.
inline std::vector<float> values_of(ConstActivations x, size_t row) {
  std::vector<float> values(x.cols);
  for (size_t i = 0; i < x.cols; ++i) {
    const std::byte* const from = x.row(row) + i * bytes_of(x.format);
    uint32_t bits = 0;
    std::memcpy(&bits, from, bytes_of(x.format));
    if (x.format == NumberFormat::kInt8) {
      values[i] = x.scales[row] * static_cast<float>(static_cast<int>(bits) - kInt8ZeroPoint);
      continue;
    }
    if (x.format == NumberFormat::kBf16) bits <<= 16;
    std::memcpy(&values[i], &bits, sizeof(bits));
  }
  return values;
}

/// x · wᵀ with both operands rounded to `format`: (M × N), row-major.
inline std::vector<double> expected_product(NumberFormat format, ConstMatView x, ConstMatView w) {
  if (format == NumberFormat::kInt8) {
    return reference::gemm_nt(reference::quantise_rows(x), reference::quantise_rows(w));
  }
  if (format == NumberFormat::kF32) return reference::gemm_nt(x, w);
  const std::vector<float> x_rounded = reference::to_bf16(std::span(x.data, x.rows * x.cols));
  const std::vector<float> w_rounded = reference::to_bf16(std::span(w.data, w.rows * w.cols));
  return reference::gemm_nt({x_rounded.data(), x.rows, x.cols}, {w_rounded.data(), w.rows, w.cols});
}

/// How far a product of `inputs` terms, of operands around 1, may be from the twin's: sums of
/// floats round; sums of integers do not, only their scaling does.
inline double product_tolerance(NumberFormat format, size_t inputs, double expected) {
  if (format == NumberFormat::kInt8) return 4e-7 * std::abs(expected) + 1e-30;
  return 4e-6 * std::sqrt(static_cast<double>(inputs));
}

}  // namespace espalier::engine
