// Matrix products with weights: the one seam behind which the backends differ.
//
//   native     our own kernels, in f32, bf16 and int8. Every element of a product is summed over
//              the inputs in one fixed order, whatever the number of rows, columns and threads.
//   onednn     the library's, in the same formats; bits depend on the number of rows.
//   openblas   the library's, f32 alone; bits depend on shapes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/activation_function.h"
#include "engine/activations.h"
#include "engine/cpu_features.h"
#include "engine/mat_view.h"
#include "engine/safetensors.h"
#include "engine/thread_pool.h"

namespace espalier::engine {

/// A weight matrix in its backend's own format, (outputs × inputs). Immutable once packed.
class PackedMatrix {
 public:
  virtual ~PackedMatrix() = default;
  virtual size_t outputs() const = 0;
  virtual size_t inputs() const = 0;
};

/// What a product does to the matrix that it is written to.
enum class Into : uint8_t {
  kStore,  // y = product
  kAdd,    // y += product: the residual connection
};

/// What a gated MLP does between its products.
struct GatedUnit {
  ActivationFunction activation = ActivationFunction::kSilu;
  std::span<const float> bias;  // (2I): of the gates, then of what they multiply; or none
};

/// Thread contract: const calls from one thread at a time per pool, from several with pools of
/// their own; the backend keeps no state between calls that a caller could see.
class GemmBackend {
 public:
  virtual ~GemmBackend() = default;

  /// For logs and `espalier inspect`: "openblas f32 (SkylakeX kernels)".
  virtual std::string description() const = 0;

  /// The format of weights, and of the activations that multiply() takes.
  virtual NumberFormat format() const = 0;

  /// Bytes that pack() takes for a matrix of `outputs` × `inputs`; pack_gated() for two of half as
  /// many outputs each.
  virtual size_t packed_bytes(size_t outputs, size_t inputs) const = 0;

  /// Packs the matrices of `stacked`, each (outputs_i × inputs), one below the other into one.
  /// kInt8 rounds each output's weights to multiples of 1/127 of their largest magnitude.
  virtual std::unique_ptr<PackedMatrix> pack(ThreadPool& pool,
                                             std::span<const TensorView> stacked) const = 0;

  /// Packs both halves of a gated MLP, each (I × inputs), for multiply_gated(). The result has 2I
  /// outputs.
  virtual std::unique_ptr<PackedMatrix> pack_gated(ThreadPool& pool, const TensorView& gate,
                                                   const TensorView& up) const = 0;

  /// y = (or +=) x · wᵀ for the outputs [first_output, first_output + y.cols) of w, split over the
  /// pool's threads. x: (M × inputs) in format(); y: (M × columns). M may be 0.
  virtual void multiply(ThreadPool& pool, ConstActivations x, const PackedMatrix& w,
                        size_t first_output, MutMatView y, Into into) const = 0;

  /// y = activation(x · gateᵀ + gate bias) ⊙ (x · upᵀ + up bias) (see gate() in
  /// engine/row_kernels.h). x: (M × inputs), y: (M × I), both in format(). `scratch` has
  /// gated_scratch(M, I) floats.
  virtual void multiply_gated(ThreadPool& pool, ConstActivations x, const PackedMatrix& w,
                              const GatedUnit& unit, Activations y,
                              std::span<float> scratch) const = 0;
  virtual size_t gated_scratch(size_t rows, size_t intermediate) const = 0;
};

/// Our own kernels for `isa`, which must be at most detected_isa().
std::unique_ptr<GemmBackend> make_native_gemm(NumberFormat format, Isa isa);

/// oneDNN in `format`. Throws std::runtime_error, with advice, for kBf16 below Isa::kAvx512 and for
/// kInt8 below kAvx512Vnni (where the library would saturate silently), be it `isa` that is below
/// or what the library has been limited to. Its kernels are chosen once a process, for
/// usable_isa(). kInt8 rounds like native, and gives its results but for the rounding of floats.
///
/// Threads that pack or multiply are set to one OpenMP thread each.
std::unique_ptr<GemmBackend> make_onednn_gemm(NumberFormat format, Isa isa);

/// f32 with OpenBLAS: the reference.
std::unique_ptr<GemmBackend> make_openblas_gemm();

}  // namespace espalier::engine
