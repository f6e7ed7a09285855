#include "models/lora.h"

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "models/json_file.h"
#include "models/lora_config.h"

namespace espalier::models {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPeftPrefix = "base_model.model.";
constexpr std::string_view kModelPrefix = "model.";
constexpr char kAdapterFile[] = "adapter_model.safetensors";

/// A key of an adapter's file, taken apart.
struct LoraKey {
  std::string module;  // "layers.0.self_attn.q_proj"
  bool is_a = false;
};

/// Throws saying why a tensor cannot be merged.
LoraKey parse_key(const std::string& where, std::string_view key) {
  const auto refuse = [&](const std::string& why) {
    throw std::runtime_error(where + ": " + std::string(key.substr(0, 200)) + ": " + why);
  };
  std::string_view rest = key;
  if (!rest.starts_with(kPeftPrefix)) {
    refuse("is not a tensor of a PEFT adapter (base_model.model.….lora_A.weight)");
  }
  rest.remove_prefix(kPeftPrefix.size());
  if (rest.starts_with(kModelPrefix)) rest.remove_prefix(kModelPrefix.size());
  if (rest.find("lora_magnitude_vector") != rest.npos) refuse("DoRA is not supported");
  if (rest.find("lora_embedding_") != rest.npos) {
    refuse("adapters of the token embeddings are not supported");
  }
  for (const auto& [ending, is_a] : {std::pair<std::string_view, bool>{".lora_A.weight", true},
                                     {".lora_A.default.weight", true},
                                     {".lora_B.weight", false},
                                     {".lora_B.default.weight", false}}) {
    if (!rest.ends_with(ending)) continue;
    const std::string module(rest.substr(0, rest.size() - ending.size()));
    if (module == "embed_tokens" || module == "lm_head") {
      refuse("adapters of the token embeddings and of the head are not supported");
    }
    return {module, is_a};
  }
  refuse(
      "is neither lora_A.weight nor lora_B.weight; other tensors (modules_to_save, biases) are "
      "not supported");
  return {};
}

std::vector<float> as_floats(const engine::TensorView& tensor) {
  std::vector<float> values(tensor.elements());
  engine::convert_to_f32(tensor, 0, values.size(), values.data());
  return values;
}

/// The adapters in MODEL/adapters, sorted.
std::vector<std::string> adapters_of(const fs::path& model) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(model / "adapters", error), end; !error && entry != end;
       entry.increment(error)) {
    if (has_file(entry->path(), "adapter_config.json")) {
      names.push_back(entry->path().filename().string());
    }
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace

fs::path find_adapter(const fs::path& model, const std::string& adapter) {
  std::error_code ignored;
  if (has_file(adapter, "adapter_config.json")) return adapter;
  const std::vector<std::string> own = adapters_of(model);
  if (std::ranges::find(own, adapter) != own.end()) return model / "adapters" / adapter;
  std::string listed;
  for (const std::string& name : own) listed += (listed.empty() ? "" : ", ") + name;
  throw std::runtime_error(
      "--lora " + adapter +
      (fs::is_directory(adapter, ignored) ? ": has no adapter_config.json" : ": is not a folder") +
      (own.empty() ? "; it must be a folder that PEFT saved an adapter in"
                   : ", and the model's own adapters are " + listed));
}

std::unique_ptr<const LoraWeights> LoraWeights::open(std::unique_ptr<const WeightSource> base,
                                                     const std::vector<fs::path>& folders) {
  std::unique_ptr<LoraWeights> weights(new LoraWeights(std::move(base)));
  for (const fs::path& folder : folders) weights->add_adapter(folder);
  return weights;
}

void LoraWeights::add_adapter(const fs::path& folder) {
  const LoraConfig config = read_lora_config(folder);
  if (!has_file(folder, kAdapterFile)) {
    throw std::runtime_error(folder.string() + ": has no " + kAdapterFile +
                             "; other formats are not supported");
  }
  files_.push_back(std::make_unique<const engine::SafetensorsFile>(
      engine::SafetensorsFile::open(folder / kAdapterFile)));
  const engine::SafetensorsFile& file = *files_.back();
  const std::string where = file.path().string();
  if (!file.other_dtypes().empty()) {
    const auto& [name, dtype] = *file.other_dtypes().begin();
    throw std::runtime_error(where + ": " + name + ": expected dtype F32, F16 or BF16, found " +
                             dtype);
  }
  std::map<std::string, Update> by_module;
  for (const auto& [key, tensor] : file.tensors()) {
    const LoraKey parsed = parse_key(where, key);
    Update& update = by_module[parsed.module];
    const engine::TensorView*& place = parsed.is_a ? update.a : update.b;
    if (place != nullptr) throw std::runtime_error(where + ": " + key + ": is there twice");
    place = &tensor;
  }
  if (by_module.empty()) throw std::runtime_error(where + ": has no tensors");
  for (auto& [module, update] : by_module) {
    update.where = where + ": " + module;
    if (update.a == nullptr || update.b == nullptr) {
      throw std::runtime_error(update.where + ": has no lora_" + (update.a == nullptr ? "A" : "B") +
                               ".weight");
    }
    const std::string name = module + ".weight";
    if (!base_->contains(name)) {
      throw std::runtime_error(update.where + ": the model has no " + name +
                               " to add it to; it was trained for another model");
    }
    update.rank = config.rank_of(module);
    update.scale = config.scale_of(module);
    updates_[name].push_back(update);
  }
}

void LoraWeights::check_shapes(const Update& update, const ExpectedTensor& expected) {
  const auto require = [&](const char* part, const engine::TensorView& found,
                           const std::vector<size_t>& shape) {
    if (found.shape == shape) return;
    throw std::runtime_error(update.where + ": lora_" + part + ": expected shape " +
                             engine::shape_text(shape) + " for this model and rank, found " +
                             engine::shape_text(found.shape));
  };
  if (expected.shape.size() != 2) {
    throw std::runtime_error(update.where + ": " + expected.name + " is not a matrix");
  }
  require("A", *update.a, {update.rank, expected.shape[1]});
  require("B", *update.b, {expected.shape[0], update.rank});
}

void LoraWeights::check(const ExpectedTensor& expected) const {
  base_->check(expected);
  const auto found = updates_.find(expected.name);
  if (found == updates_.end()) return;
  for (const Update& update : found->second) check_shapes(update, expected);
}

WeightTensor LoraWeights::tensor(const ExpectedTensor& expected) const {
  WeightTensor base = base_->tensor(expected);
  const auto found = updates_.find(expected.name);
  if (found == updates_.end()) return base;
  const auto merged = std::make_shared<std::vector<float>>(as_floats(base.view));
  for (const Update& update : found->second) {
    check_shapes(update, expected);
    const size_t outputs = expected.shape[0], inputs = expected.shape[1];
    const std::vector<float> a = as_floats(*update.a);
    const std::vector<float> b = as_floats(*update.b);
    std::vector<float> sum(inputs);  // of the products alone, so that few are rounded to W's size
    for (size_t o = 0; o < outputs; ++o) {
      std::ranges::fill(sum, 0.0F);
      for (size_t r = 0; r < update.rank; ++r) {
        const float factor = b[o * update.rank + r];
        const float* const row = &a[r * inputs];
        for (size_t i = 0; i < inputs; ++i) sum[i] += factor * row[i];
      }
      const auto scale = static_cast<float>(update.scale);
      float* const out = merged->data() + o * inputs;
      for (size_t i = 0; i < inputs; ++i) out[i] += scale * sum[i];
    }
  }
  return {{engine::DataType::kF32, expected.shape, std::as_bytes(std::span(*merged))}, merged};
}

}  // namespace espalier::models
