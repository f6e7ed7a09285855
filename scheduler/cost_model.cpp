#include "scheduler/cost_model.h"

#include <cmath>
#include <optional>

namespace espalier::scheduler {
namespace {

constexpr double kMemory = 0.98;  // of an observation's weight that is left after the next one
/// Of the pull towards the sizes' ratios, against one observation.
constexpr double kPull = 1e-3;
/// The fixed part is measured in this many rows.
constexpr double kFixedRows = 16;

/// Solves `a` x = `b` restricted to the unknowns in `active` (a bit each), by Gaussian elimination;
/// the others are 0. None if the system is singular.
template <size_t N>
std::optional<std::array<double, N>> solve(std::array<std::array<double, N>, N> a,
                                           std::array<double, N> b, unsigned active) {
  for (size_t i = 0; i < N; ++i) {
    if ((active >> i & 1U) != 0) continue;
    for (size_t j = 0; j < N; ++j) a[i][j] = a[j][i] = 0;
    a[i][i] = 1;
    b[i] = 0;
  }
  // Symmetric and positive definite but for rounding: no pivoting is needed.
  for (size_t i = 0; i < N; ++i) {
    if (!(a[i][i] > 0)) return std::nullopt;
    for (size_t j = i + 1; j < N; ++j) {
      const double factor = a[j][i] / a[i][i];
      for (size_t k = i; k < N; ++k) a[j][k] -= factor * a[i][k];
      b[j] -= factor * b[i];
    }
  }
  std::array<double, N> x{};
  for (size_t i = N; i-- > 0;) {
    double sum = b[i];
    for (size_t k = i + 1; k < N; ++k) sum -= a[i][k] * x[k];
    x[i] = sum / a[i][i];
  }
  return x;
}

}  // namespace

void CostModel::observe(const PassWork& work, double seconds) {
  const double rows = costs_.in_rows(work);
  if (!(seconds > 0) || !(rows > 0)) return;
  // In rows, so that every unknown is seconds per row; divided by the time: errors are relative.
  const Vector features = {kFixedRows, work.rows, costs_.pair * work.pairs,
                           costs_.wanted * work.wanted};
  for (size_t i = 0; i < kUnknowns; ++i) {
    for (size_t j = 0; j < kUnknowns; ++j) {
      products_[i][j] = kMemory * products_[i][j] + features[i] * features[j] / (seconds * seconds);
    }
    right_side_[i] = kMemory * right_side_[i] + features[i] / seconds;
  }
  rows_seen_ = kMemory * rows_seen_ + rows;
  seconds_seen_ = kMemory * seconds_seen_ + seconds;
  if (++observations_ >= kObservationsMin) fit();
}

void CostModel::fit() {
  const double per_row = seconds_seen_ / rows_seen_;
  Matrix products = products_;
  Vector right_side = right_side_;
  for (size_t i = 0; i < kUnknowns; ++i) {
    // An unknown that is off by as much as itself weighs kPull.
    products[i][i] += kPull / (per_row * per_row);
    right_side[i] += i == 0 ? 0 : kPull / per_row;
  }
  // Of all sets of unknowns that may differ from 0, the feasible solution with the least error.
  Vector best{};
  double best_error = 0;  // relative to x = 0
  for (unsigned active = 1; active < 1U << kUnknowns; ++active) {
    const auto x = solve(products, right_side, active);
    if (!x) continue;
    double error = 0;
    bool feasible = true;
    for (size_t i = 0; i < kUnknowns; ++i) {
      feasible = feasible && (*x)[i] >= 0;
      error -= 2 * right_side[i] * (*x)[i];
      for (size_t j = 0; j < kUnknowns; ++j) error += (*x)[i] * products[i][j] * (*x)[j];
    }
    if (feasible && error < best_error) {
      best_error = error;
      best = *x;
    }
  }
  const std::lock_guard lock(mutex_);
  coefficients_ = {kFixedRows * best[0], best[1], costs_.pair * best[2], costs_.wanted * best[3]};
}

CostCoefficients CostModel::coefficients() const {
  const std::lock_guard lock(mutex_);
  return coefficients_;
}

}  // namespace espalier::scheduler
