#include "models/rope_config.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace espalier::models {
namespace {

using engine::RopeScaling;
using nlohmann::json;
using Keys = std::initializer_list<std::string_view>;

constexpr double kMaxFactor = 1e6;
constexpr size_t kMaxPositions = size_t{1} << 22;

double positive(const JsonObject& object, std::string_view key, double fallback) {
  const double value = object.number(key).value_or(fallback);
  if (!(value > 0 && value <= kMaxFactor)) {
    object.fail(key, "must be above 0 and at most 1000000");
  }
  return value;
}

/// A factor that stretches positions.
double factor(const JsonObject& rope) {
  if (!rope.has("factor")) rope.fail("factor", "is missing");
  const double value = positive(rope, "factor", 0);
  if (value < 1) rope.fail("factor", "must be at least 1");
  return value;
}

/// A misspelt key, or one of another kind, would be a setting that is not applied.
void refuse_other_keys(const JsonObject& rope, std::string_view kind, Keys known) {
  for (const std::string& key : rope.keys()) {
    const bool shared = key == "rope_type" || key == "type" || key == "rope_theta" ||
                        key == "partial_rotary_factor";
    if (shared || !rope.has(key) || std::ranges::find(known, key) != known.end()) continue;
    rope.fail(key, "is not a key of rotary embedding of kind " + std::string(kind) +
                       ", or not supported");
  }
}

/// Positions of the training that was stretched: in `rope`, or beside it in the config.
double original_positions(const JsonObject& object, const JsonObject& rope, size_t positions) {
  constexpr std::string_view kKey = "original_max_position_embeddings";
  std::optional<size_t> found;
  for (const JsonObject* place : {&object, &rope}) {
    if (!place->has(kKey)) continue;
    const size_t value = place->size(kKey, kMaxPositions);
    if (found && *found != value) place->fail(kKey, "contradicts the one beside rope_scaling");
    found = value;
  }
  return static_cast<double>(found.value_or(positions));
}

void read_llama3(const JsonObject& object, const JsonObject& rope, size_t positions,
                 RopeScaling& scaling) {
  refuse_other_keys(
      rope, "llama3",
      {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"});
  scaling.kind = RopeScaling::Kind::kLlama3;
  scaling.factor = factor(rope);
  for (const char* key : {"low_freq_factor", "high_freq_factor"}) {
    if (!rope.has(key)) rope.fail(key, "is missing");
  }
  scaling.low_freq_factor = positive(rope, "low_freq_factor", 0);
  scaling.high_freq_factor = positive(rope, "high_freq_factor", 0);
  if (scaling.high_freq_factor <= scaling.low_freq_factor) {
    rope.fail("high_freq_factor", "must be above low_freq_factor");
  }
  scaling.original_positions = original_positions(object, rope, positions);
}

double read_attention_factor(const JsonObject& rope, double stretch) {
  if (rope.has("attention_factor")) return positive(rope, "attention_factor", 1);
  const double weight = rope.number("mscale").value_or(0);
  const double weight_of_all = rope.number("mscale_all_dim").value_or(0);
  if (weight == 0 || weight_of_all == 0) return engine::yarn_attention_factor(stretch);
  if (weight < 0 || weight > kMaxFactor) rope.fail("mscale", "must be from 0 to 1000000");
  if (weight_of_all < 0 || weight_of_all > kMaxFactor) {
    rope.fail("mscale_all_dim", "must be from 0 to 1000000");
  }
  return engine::yarn_attention_factor(stretch, weight) /
         engine::yarn_attention_factor(stretch, weight_of_all);
}

void read_yarn(const JsonObject& object, const JsonObject& rope, size_t positions,
               RopeScaling& scaling) {
  refuse_other_keys(rope, "yarn",
                    {"factor", "original_max_position_embeddings", "attention_factor", "mscale",
                     "mscale_all_dim", "beta_fast", "beta_slow", "truncate"});
  scaling.kind = RopeScaling::Kind::kYarn;
  scaling.original_positions = original_positions(object, rope, positions);
  // Without a factor, the one that leads from the original positions to today's.
  scaling.factor = rope.has("factor") ? factor(rope)
                                      : static_cast<double>(positions) / scaling.original_positions;
  if (scaling.factor < 1) {
    rope.fail("original_max_position_embeddings", "must be at most max_position_embeddings");
  }
  scaling.beta_fast = positive(rope, "beta_fast", 32);
  scaling.beta_slow = positive(rope, "beta_slow", 1);
  if (scaling.beta_fast <= scaling.beta_slow) rope.fail("beta_fast", "must be above beta_slow");
  scaling.truncate = rope.boolean("truncate", true);
  scaling.attention_factor = read_attention_factor(rope, scaling.factor);
}

std::string kind_of(const JsonObject& rope) {
  if (rope.has("rope_type") && rope.has("type") &&
      rope.text("rope_type", "") != rope.text("type", "")) {
    rope.fail("type", "contradicts rope_type");
  }
  return rope.text("rope_type", rope.text("type", ""));
}

RopeScaling read_scaling(const JsonObject& object, const JsonObject& rope, size_t positions) {
  constexpr char kSupported[] = "supported: default, linear, llama3, yarn";
  const std::string kind = kind_of(rope);
  RopeScaling scaling;
  if (kind == "default") {
    refuse_other_keys(rope, "default", {});
  } else if (kind == "linear") {
    refuse_other_keys(rope, "linear", {"factor"});
    scaling.kind = RopeScaling::Kind::kLinear;
    scaling.factor = factor(rope);
  } else if (kind == "llama3") {
    read_llama3(object, rope, positions, scaling);
  } else if (kind == "yarn") {
    read_yarn(object, rope, positions, scaling);
  } else {
    rope.fail("rope_type", kind.empty() ? std::string("is missing; ") + kSupported
                                        : excerpt(kind) + " is not supported; " + kSupported);
  }
  return scaling;
}

/// rope_theta, which may stand in the config or in the object that describes the embedding.
class Theta {
 public:
  void read_from(const JsonObject& object) {
    if (object.number("partial_rotary_factor").value_or(1.0) != 1.0) {
      object.fail("partial_rotary_factor", "is not supported unless 1: heads are rotated whole");
    }
    const std::optional<double> value = object.number("rope_theta");
    if (!value) return;
    if (*value <= 0) object.fail("rope_theta", "must be positive");
    if (found_ && *found_ != *value) object.fail("rope_theta", "contradicts another rope_theta");
    found_ = value;
  }
  double value() const { return found_.value_or(10000.0); }

 private:
  std::optional<double> found_;
};

}  // namespace

void read_rope(const JsonObject& object, ModelConfig& config) {
  const size_t positions = object.size("max_position_embeddings", kMaxPositions);
  Theta theta;
  theta.read_from(object);
  std::optional<RopeScaling> found;
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const std::optional<JsonObject> rope = object.object(key);
    if (!rope) continue;
    RopeScaling scaling = read_scaling(object, *rope, positions);
    if (found && *found != scaling) object.fail(key, "contradicts rope_parameters");
    found = std::move(scaling);
    theta.read_from(*rope);
  }
  config.rope_scaling = found.value_or(RopeScaling{});
  config.rope_theta = theta.value();
  config.rope_positions = positions;
  const RopeScaling& scaling = config.rope_scaling;
  if (scaling.kind != RopeScaling::Kind::kYarn) return;
  if (config.rope_theta <= 1) object.fail("rope_theta", "must be above 1 with YaRN");
  // Files often leave max_position_embeddings as it was before stretching.
  const auto stretched = static_cast<size_t>(
      std::min(scaling.original_positions * scaling.factor, static_cast<double>(kMaxPositions)));
  config.rope_positions = std::max(positions, stretched);
}

}  // namespace espalier::models
