// The frequencies of rotary position embedding, as models are trained or stretched to longer texts.
//
// Thread contract: plain values and a stateless function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace espalier::engine {

/// How frequencies differ from theta^(-2i/d).
struct RopeScaling {
  enum class Kind : uint8_t {
    kNone,
    kLinear,   // positions divided by `factor` (Chen et al. 2023, "Position Interpolation")
    kLlama3,   // long waves divided by `factor`, short ones kept (Llama 3.1)
    kYarn,     // the same in another measure, and attention sharpened (Peng et al. 2023, "YaRN")
    kDivided,  // each divided by its own divisor: how GGUF files store Llama 3's
  };
  Kind kind = Kind::kNone;
  double factor = 1;
  double original_positions = 0;  // of the training that is stretched: kLlama3 and kYarn
  double low_freq_factor = 1;   // kLlama3: waves longer than original_positions / this are divided,
  double high_freq_factor = 4;  // shorter ones than original_positions / this are kept
  double beta_fast = 32;        // kYarn: with more turns than this in original_positions a
  double beta_slow = 1;         // frequency is kept, with fewer than this it is divided
  bool truncate = true;         // kYarn: bounds of the ramp between them are whole dimensions
  double attention_factor = 1;  // kYarn: cosines and sines are multiplied by it
  std::vector<float> divisors;  // kDivided: (head_dim / 2)

  bool operator==(const RopeScaling&) const = default;
};

constexpr std::string_view name_of(RopeScaling::Kind kind) {
  switch (kind) {
    case RopeScaling::Kind::kNone:
      return "not scaled";
    case RopeScaling::Kind::kLinear:
      return "linear";
    case RopeScaling::Kind::kLlama3:
      return "llama3";
    case RopeScaling::Kind::kYarn:
      return "yarn";
    case RopeScaling::Kind::kDivided:
      return "divided";
  }
  return "unknown";
}

/// head_dim / 2 frequencies, in radians a position. Throws std::invalid_argument unless kDivided
/// has as many divisors.
std::vector<double> rope_frequencies(size_t head_dim, double theta, const RopeScaling& scaling);

/// What YaRN multiplies cosines and sines by when nothing else is said: 0.1 · ln(factor) + 1.
/// `weight` stands before the logarithm, too (DeepSeek's mscale).
double yarn_attention_factor(double factor, double weight = 1);

}  // namespace espalier::engine
