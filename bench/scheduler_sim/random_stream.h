// A small random generator: what a trace, a text or a batch's noise is made from. Unlike standard
// distributions, it draws the same numbers with every standard library.
//
// Thread contract: none; one thread at a time.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace espalier::sim {

/// One number from another (the finaliser of SplitMix64; Steele, Lea, Flood 2014).
constexpr uint64_t mixed(uint64_t z) {
  z += 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

class RandomStream {
 public:
  explicit RandomStream(uint64_t seed) : state_(mixed(seed)) {}

  uint64_t next() {
    state_ += 0x9E3779B97F4A7C15U;
    return mixed(state_);
  }
  /// In [0, end).
  uint64_t below(uint64_t end) { return next() % end; }
  /// In [first, last].
  uint64_t between(uint64_t first, uint64_t last) { return first + below(last - first + 1); }
  /// In [0, 1).
  double unit() { return static_cast<double>(next() >> 11U) * 0x1p-53; }
  /// In [low, high).
  double uniform(double low, double high) { return low + (high - low) * unit(); }
  bool chance(double probability) { return unit() < probability; }
  double exponential(double mean) { return -mean * std::log1p(-unit()); }
  /// Mean 0, variance 1 (Box, Muller 1958).
  double normal() {
    const double radius = std::sqrt(-2 * std::log1p(-unit()));
    return radius * std::cos(6.283185307179586 * unit());
  }
  /// A token count around `mean`: from half of it to one and a half.
  size_t around(size_t mean) { return mean == 0 ? 0 : between((mean + 1) / 2, mean + mean / 2); }

 private:
  uint64_t state_;
};

}  // namespace espalier::sim
