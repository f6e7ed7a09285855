// The weights of a model folder by name, in model.safetensors or in the shards that
// model.safetensors.index.json lists.
//
// The `model.` prefix, which some checkpoints have and others lack, is taken off the names.
//
// Thread contract: immutable after open(); any number of readers.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "engine/safetensors.h"
#include "models/weight_source.h"

namespace espalier::models {

class WeightFiles final : public WeightSource {
 public:
  /// Maps the files. Throws std::runtime_error naming file, key and reason for a folder without
  /// weights, a malformed index, a shard that lacks what the index promises, or a tensor that is
  /// there twice.
  static WeightFiles open(const std::filesystem::path& folder);

  bool contains(const std::string& name) const override { return locations_.contains(name); }
  void check(const ExpectedTensor& expected) const override { (void)tensor(expected); }
  WeightTensor tensor(const ExpectedTensor& expected) const override;
  std::vector<std::string> names() const override;
  std::string describe(const std::string& name) const override;
  size_t stored_bytes(const std::string& name) const override;
  void release_pages(const std::string& name) const override;

 private:
  struct Location {
    size_t file = 0;
    std::string published_name;
  };

  explicit WeightFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}
  void add_single(const std::filesystem::path& file);
  void add_shards(const std::filesystem::path& index);
  void add_name(size_t file, const std::string& published_name);
  const engine::TensorView* find(const std::string& name) const;

  std::filesystem::path folder_;
  std::vector<engine::SafetensorsFile> files_;
  std::map<std::string, Location> locations_;
};

}  // namespace espalier::models
