#include "models/dense_layer.h"

#include <cmath>
#include <stdexcept>

#include "models/heads.h"
#include "models/weight_files.h"

namespace espalier::models {
namespace {

constexpr char kWeight[] = "linear.weight";
constexpr char kBias[] = "linear.bias";

std::vector<float> values_of(const WeightFiles& files, const ExpectedTensor& expected) {
  const engine::TensorView view = files.tensor(expected).view;
  std::vector<float> values(view.elements());
  engine::convert_to_f32(view, 0, values.size(), values.data());
  return values;
}

}  // namespace

DenseLayer DenseLayer::load(const DenseConfig& config) {
  const WeightFiles files = WeightFiles::open(config.folder);
  for (const std::string& name : files.names()) {
    if (name == kWeight || (config.bias && name == kBias)) continue;
    throw std::runtime_error(files.describe(name) + ": is not a tensor of a Dense module" +
                             (name == kBias ? " whose config.json says bias: false" : ""));
  }
  DenseLayer layer;
  layer.config_ = config;
  layer.weight_ = values_of(files, {kWeight, {config.outputs, config.inputs}});
  if (config.bias) layer.bias_ = values_of(files, {kBias, {config.outputs}});
  return layer;
}

std::vector<float> DenseLayer::apply(std::span<const float> x) const {
  std::vector<float> y(config_.outputs);
  for (size_t i = 0; i < y.size(); ++i) {
    const std::span row(weight_.data() + i * config_.inputs, config_.inputs);
    const double sum = dot(row, x) + (bias_.empty() ? 0.0 : bias_[i]);
    const bool tanh = config_.activation == DenseConfig::Activation::kTanh;
    y[i] = static_cast<float>(tanh ? std::tanh(sum) : sum);
  }
  return y;
}

}  // namespace espalier::models
