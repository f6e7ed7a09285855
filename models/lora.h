// A model's weights with LoRA adapters added: W + Σ scale · B·A, computed in f32 when a tensor is
// read.
//
// Thread contract: as WeightSource.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/safetensors.h"
#include "models/weight_source.h"

namespace espalier::models {

/// The folder of an adapter: `adapter` itself, or, where that is no folder, the one of this name
/// among the adapters that `model` brings along (MODEL/adapters/retrieval, as
/// jina-embeddings-v5-text-small). Throws std::runtime_error listing those that there are.
std::filesystem::path find_adapter(const std::filesystem::path& model, const std::string& adapter);

class LoraWeights final : public WeightSource {
 public:
  /// `folders` as PEFT saves them: adapter_config.json and adapter_model.safetensors. Throws
  /// std::runtime_error naming file, key or tensor, and reason, for what is malformed, not
  /// supported, or has no counterpart in `base`.
  static std::unique_ptr<const LoraWeights> open(std::unique_ptr<const WeightSource> base,
                                                 const std::vector<std::filesystem::path>& folders);

  bool contains(const std::string& name) const override { return base_->contains(name); }
  /// Throws also when an adapter's matrices are of other shapes.
  void check(const ExpectedTensor& expected) const override;
  /// F32 where an adapter changes it.
  WeightTensor tensor(const ExpectedTensor& expected) const override;
  std::vector<std::string> names() const override { return base_->names(); }
  std::string describe(const std::string& name) const override { return base_->describe(name); }
  size_t stored_bytes(const std::string& name) const override { return base_->stored_bytes(name); }
  void release_pages(const std::string& name) const override { base_->release_pages(name); }

 private:
  /// What one adapter adds to one (out × in) matrix.
  struct Update {
    std::string where;  // file and module, for messages
    size_t rank = 0;
    double scale = 0;
    const engine::TensorView* a = nullptr;  // (rank × in)
    const engine::TensorView* b = nullptr;  // (out × rank)
  };

  explicit LoraWeights(std::unique_ptr<const WeightSource> base) : base_(std::move(base)) {}
  void add_adapter(const std::filesystem::path& folder);
  static void check_shapes(const Update& update, const ExpectedTensor& expected);

  std::unique_ptr<const WeightSource> base_;
  std::vector<std::unique_ptr<const engine::SafetensorsFile>> files_;
  std::map<std::string, std::vector<Update>> updates_;  // by tensor, in the adapters' order
};

}  // namespace espalier::models
