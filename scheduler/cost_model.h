// How long a batch will take, learnt from those that have run:
//
//   seconds = a + b · rows + c · pairs + d · wanted,   a, b, c, d >= 0
//
// fitted by non-negative least squares (Lawson, Hanson 1974; with four unknowns every active set is
// tried) to relative errors, so that short batches count as much as long ones. Old batches are
// forgotten at a fixed rate. Batches that all look alike do not determine four unknowns: a weak
// pull towards the ratios of b : c : d that the model's sizes tell keeps them in proportion.
// Nothing is predicted before a few have run: the first ones wait for weights and memory that are
// touched for the first time.
//
// Thread contract: observe() from one thread, coefficients() from any.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>

#include "scheduler/pass_work.h"

namespace espalier::scheduler {

/// All 0 until enough batches have been observed: nothing can be predicted.
struct CostCoefficients {
  double fixed = 0;   // seconds of a batch, whatever is in it
  double row = 0;     // seconds
  double pair = 0;    // seconds
  double wanted = 0;  // seconds

  double seconds(const PassWork& work) const {
    return fixed + row * work.rows + pair * work.pairs + wanted * work.wanted;
  }
};

class CostModel {
 public:
  /// Batches before anything is predicted.
  static constexpr size_t kObservationsMin = 3;

  explicit CostModel(const PassCosts& costs) : costs_(costs) {}

  /// A batch of `work` took `seconds`; ignored unless both are above 0.
  void observe(const PassWork& work, double seconds);
  CostCoefficients coefficients() const;

 private:
  static constexpr size_t kUnknowns = 4;
  using Vector = std::array<double, kUnknowns>;
  using Matrix = std::array<Vector, kUnknowns>;

  void fit();

  const PassCosts costs_;
  // Normal equations of the observations, in units that make the unknowns comparable.
  Matrix products_{};
  Vector right_side_{};
  size_t observations_ = 0;
  double rows_seen_ = 0;     // cost in rows, and …
  double seconds_seen_ = 0;  // … time of the observations, as far as they are remembered
  mutable std::mutex mutex_;
  CostCoefficients coefficients_;  // guarded by mutex_
};

}  // namespace espalier::scheduler
