// The position-wise kernels of a decoder layer, each on rows that the caller has split among
// threads; they compute in f32 and write the format that is read next. Every one has a naive twin
// in tests/reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/activation_function.h"
#include "engine/activations.h"
#include "engine/mat_view.h"

namespace espalier::engine {

/// out[i] = x[i] / sqrt(mean(x²) + eps) · weight[i]  (Zhang & Sennrich 2019, "Root Mean Square
/// Layer Normalization"). x and out: n elements; they may be the same.
void rms_norm(std::span<const float> x, std::span<const float> weight, float eps,
              std::span<float> out);

/// The same, written to row `row` of `out` in its format (with its scale, and zeros as padding).
void rms_norm(std::span<const float> x, std::span<const float> weight, float eps, Activations out,
              size_t row);

/// Writes x to row `row` of `out` in its format (with its scale, and zeros as padding).
void write_row(std::span<const float> x, Activations out, size_t row);

/// The same for row `from_row` of `x`, to its own format or a narrower one. Throws
/// std::invalid_argument for a wider one.
void write_row(ConstActivations x, size_t from_row, Activations out, size_t row);

/// Zeroes the bytes behind the columns of row `row`, up to the next multiple of
/// kActivationAlignment.
void zero_padding(Activations out, size_t row);

/// x += y.
void add(std::span<float> x, std::span<const float> y);

/// out[i] = activation(gate[i]) · up[i]  (Shazeer 2020, "GLU Variants Improve Transformer").
/// `gate_up` holds gate (n), then up (n).
void gate(ActivationFunction activation, std::span<const float> gate_up, std::span<float> out);

/// Cosines and sines of rotary position embedding: angle(p, i) = p · frequencies[i], i < d/2
/// (Su et al. 2021, "RoFormer"), times `factor`. Angles are computed in double.
class RopeTable {
 public:
  RopeTable(std::span<const double> frequencies, double factor, size_t positions);
  std::span<const float> cos(size_t position) const;  // head_dim / 2
  std::span<const float> sin(size_t position) const;  // head_dim / 2

 private:
  size_t half_;
  std::vector<float> cos_, sin_;
};

/// Rotates one head (d elements) in place; pairs are (i, i + d/2), as Hugging Face's `rotate_half`.
void apply_rope(std::span<float> head, std::span<const float> cos, std::span<const float> sin);

}  // namespace espalier::engine
