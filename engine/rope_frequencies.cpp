#include "engine/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>

namespace espalier::engine {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

double llama3_frequency(double frequency, const RopeScaling& s) {
  const double turns = s.original_positions * frequency / kTurn;  // in the original length
  if (turns < s.low_freq_factor) return frequency / s.factor;
  if (turns > s.high_freq_factor) return frequency;
  const double kept = (turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return frequency * (kept + (1 - kept) / s.factor);
}

/// The index i, as a fraction, at which theta^(-2i/d) turns `turns` times in the original length.
double index_with_turns(double turns, double head_dim, double theta, double original_positions) {
  return head_dim * std::log(original_positions / (turns * kTurn)) / (2 * std::log(theta));
}

/// Where YaRN's ramp from kept to divided frequencies begins and ends.
struct Ramp {
  double begin, end;
  double divided(double index) const {
    return std::clamp((index - begin) / (end - begin), 0.0, 1.0);
  }
};

Ramp yarn_ramp(double head_dim, double theta, const RopeScaling& s) {
  double begin = index_with_turns(s.beta_fast, head_dim, theta, s.original_positions);
  double end = index_with_turns(s.beta_slow, head_dim, theta, s.original_positions);
  if (s.truncate) {
    begin = std::floor(begin);
    end = std::ceil(end);
  }
  // The published code bounds the end by the head's width rather than by its number of frequencies.
  begin = std::max(begin, 0.0);
  end = std::min(end, head_dim - 1);
  if (begin == end) end += 0.001;
  return {begin, end};
}

}  // namespace

std::vector<double> rope_frequencies(size_t head_dim, double theta, const RopeScaling& scaling) {
  const size_t half = head_dim / 2;
  const auto width = static_cast<double>(head_dim);
  const bool divided = scaling.kind == RopeScaling::Kind::kDivided;
  if (divided && scaling.divisors.size() != half) {
    throw std::invalid_argument("rope_frequencies: " + std::to_string(scaling.divisors.size()) +
                                " divisors for " + std::to_string(half) + " frequencies");
  }
  Ramp ramp{};
  if (scaling.kind == RopeScaling::Kind::kYarn) ramp = yarn_ramp(width, theta, scaling);
  std::vector<double> frequencies(half);
  for (size_t i = 0; i < half; ++i) {
    double frequency = std::pow(theta, -2.0 * static_cast<double>(i) / width);
    switch (scaling.kind) {
      case RopeScaling::Kind::kNone:
        break;
      case RopeScaling::Kind::kLinear:
        frequency /= scaling.factor;
        break;
      case RopeScaling::Kind::kLlama3:
        frequency = llama3_frequency(frequency, scaling);
        break;
      case RopeScaling::Kind::kYarn: {
        const double share = ramp.divided(static_cast<double>(i));
        frequency *= (1 - share) + share / scaling.factor;
        break;
      }
      case RopeScaling::Kind::kDivided:
        frequency /= scaling.divisors[i];
        break;
    }
    frequencies[i] = frequency;
  }
  return frequencies;
}

double yarn_attention_factor(double factor, double weight) {
  return factor <= 1 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0;
}

}  // namespace espalier::engine
