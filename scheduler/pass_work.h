// How much a forward pass computes, in the quantities that its time depends on. Plain data.
#pragma once

#include <cstddef>

namespace espalier::scheduler {

/// Pairs of a query with the keys that it sees, itself included, in a sequence's tokens from
/// `shared` on, when those before are there already.
constexpr double attention_pairs(size_t tokens, size_t shared = 0) {
  const auto triangle = [](double n) { return n * (n + 1) / 2; };
  return triangle(static_cast<double>(tokens)) - triangle(static_cast<double>(shared));
}

struct PassWork {
  double rows = 0;    // compact rows
  double pairs = 0;   // attention's query-key pairs
  double wanted = 0;  // rows of which the final hidden state is read
};

inline PassWork operator+(const PassWork& a, const PassWork& b) {
  return {a.rows + b.rows, a.pairs + b.pairs, a.wanted + b.wanted};
}

/// What a pair and a wanted row cost, as shares of what a row costs: known from the model's sizes
/// before anything has run.
struct PassCosts {
  double pair = 0;
  double wanted = 0;

  /// `work` in rows.
  double in_rows(const PassWork& work) const {
    return work.rows + pair * work.pairs + wanted * work.wanted;
  }
  /// A sequence that shares nothing and of which so many rows are wanted.
  double of_sequence(size_t tokens, size_t wanted_rows = 1) const {
    return in_rows(
        {static_cast<double>(tokens), attention_pairs(tokens), static_cast<double>(wanted_rows)});
  }
};

}  // namespace espalier::scheduler
