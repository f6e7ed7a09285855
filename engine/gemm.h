// Matrix products with weights: the seam behind which backends of other number formats follow.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

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

/// Thread contract: const calls from one thread at a time per pool; the backend keeps no state
/// between calls.
class GemmBackend {
 public:
  virtual ~GemmBackend() = default;

  /// For logs and `espalier inspect`: "openblas f32 (SkylakeX kernels)".
  virtual std::string description() const = 0;

  /// Bytes that pack() takes for a matrix of `outputs` × `inputs`.
  virtual size_t packed_bytes(size_t outputs, size_t inputs) const = 0;

  /// Packs the matrices of `stacked`, each (outputs_i × inputs), one below the other into one:
  /// fused QKV and gate-up products.
  virtual std::unique_ptr<PackedMatrix> pack(std::span<const TensorView> stacked) const = 0;

  /// y = x · wᵀ for x (M × inputs) and y (M × outputs), split over the pool's threads. M may be 0.
  virtual void multiply(ThreadPool& pool, ConstMatView x, const PackedMatrix& w,
                        MutMatView y) const = 0;
};

/// f32 with OpenBLAS: the reference, and the fallback of every machine.
std::unique_ptr<GemmBackend> make_openblas_gemm();

}  // namespace espalier::engine
