// The innermost loops of matrix products, compiled once for each instruction set
// (engine/gemm_loops.cpp, engine/gemm_loops_amx.cpp) and chosen at run time.
//
// Weights are packed in *panels* of 32 outputs. A panel holds, for each group of inputs that one
// instruction multiplies (1 in f32, 2 in bf16, 4 in int8), that group for output 0, 1, … 31: the
// layout of vdpbf16ps, vpdpbusd and AMX's right-hand tiles alike. Missing outputs are zeros, and so
// are missing inputs: the number of inputs is rounded up to whole rows of 64 bytes of activations.
//
// Each element of a product is one sum over the inputs in an order that depends on nothing but the
// instruction set and the number of inputs.
//
// Thread contract: stateless functions and constant tables; begin() and end() concern the calling
// thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/activation_function.h"
#include "engine/cpu_features.h"
#include "engine/number_format.h"

namespace espalier::engine {

/// Outputs of a panel.
inline constexpr size_t kPanelWidth = 32;
/// Rows of the largest tile.
inline constexpr size_t kTileRowsMax = 32;

/// Inputs that a panel holds next to each other for one output.
constexpr size_t inputs_per_group(NumberFormat format) { return 4 / bytes_of(format); }

/// Memory to bring into the second-level cache meanwhile: `lines` cache lines (0 to 2) for each
/// group of inputs. With few rows a product is as fast as memory, and must not leave it idle.
struct ReadAhead {
  const std::byte* from = nullptr;
  size_t lines = 0;
};

/// tile (rows × 32) = x · panelᵀ, of floats, in int8 of int32_t. `x` has `rows` rows of `groups`
/// groups of inputs, x_stride bytes apart; 1 <= rows <= tile_rows.
using TileProduct = void (*)(const std::byte* x, size_t x_stride, size_t rows,
                             const std::byte* panel, size_t groups, ReadAhead ahead, void* tile);

/// One format's product, and the most rows that a call may have.
struct TileKernel {
  TileProduct product;
  size_t tile_rows;
};

/// The part of an int8 panel that turns sums into values:
/// value[r][c] = (sum[r][c] - zero_sums[c]) · weight_scales[c] · row_scales[r].
struct PanelScales {
  const int32_t* zero_sums = nullptr;    // (32) 128 · Σ of the output's weights
  const float* weight_scales = nullptr;  // (32)
};

/// y[r][i] = activation(tile[r][i]) · tile[r][16 + i] for i < columns <= 16, as f32 or as bf16;
/// rows `y_stride` bytes apart.
struct GateKernel {
  void (*to_f32)(const float* tile, size_t rows, size_t columns, std::byte* y, size_t y_stride);
  void (*to_bf16)(const float* tile, size_t rows, size_t columns, std::byte* y, size_t y_stride);
};

/// One instruction set's versions. Tiles are (rows × 32), rows next to each other.
struct GemmLoops {
  TileKernel f32, bf16, int8;

  /// Around a thread's products.
  void (*begin)();
  void (*end)();

  /// Turns the sums of an int8 tile into values, in place.
  void (*dequantise)(void* tile, size_t rows, const PanelScales& scales, const float* row_scales);

  /// y (rows `y_stride` floats apart) = or += columns [first, first + columns) of the tile.
  void (*store)(const float* tile, size_t rows, size_t first, size_t columns, float* y,
                size_t y_stride);
  void (*add)(const float* tile, size_t rows, size_t first, size_t columns, float* y,
              size_t y_stride);

  /// tile[r][c] += bias[c], 32 of them.
  void (*add_bias)(float* tile, size_t rows, const float* bias);
  /// One for each ActivationFunction.
  GateKernel swiglu, geglu, geglu_tanh;

  const TileKernel& kernel(NumberFormat format) const {
    return format == NumberFormat::kF32 ? f32 : format == NumberFormat::kBf16 ? bf16 : int8;
  }
  const GateKernel& gate(ActivationFunction activation) const {
    return activation == ActivationFunction::kSilu   ? swiglu
           : activation == ActivationFunction::kGelu ? geglu
                                                     : geglu_tanh;
  }
};

/// The loops for `isa`, which must be at most detected_isa().
const GemmLoops& gemm_loops_for(Isa isa);

/// For benchmarks: `rounds` times four bf16 tile products on registers alone, of kAmxRegisterFlops
/// operations. Needs Isa::kAmx.
void amx_multiply_registers(size_t rounds);
inline constexpr double kAmxRegisterFlops = 4.0 * 2 * 16 * 16 * 32;

}  // namespace espalier::engine
