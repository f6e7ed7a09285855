// The weights of a model folder by name, in model.safetensors or in the shards that
// model.safetensors.index.json lists.
//
// Names are given without the `model.` prefix, which some checkpoints have and others lack.
//
// Thread contract: immutable after open(); any number of readers.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "engine/safetensors.h"

namespace espalier::models {

/// A tensor that an architecture wants.
struct ExpectedTensor {
  std::string name;
  std::vector<size_t> shape;
};

class WeightFiles {
 public:
  /// Maps the files. Throws std::runtime_error naming file, key and reason for a folder without
  /// weights, a malformed index, a shard that lacks what the index promises, or a tensor that is
  /// there twice.
  static WeightFiles open(const std::filesystem::path& folder);

  bool contains(const std::string& name) const { return locations_.contains(name); }

  /// The tensor, valid as long as this object. Throws std::runtime_error naming file, tensor,
  /// expected and found when it is missing, or of another shape or an unsupported dtype.
  const engine::TensorView& tensor(const ExpectedTensor& expected) const;

  /// The names of all tensors, sorted.
  std::vector<std::string> names() const;

  /// "FILE: NAME", as the file spells it; the name must be there.
  std::string describe(const std::string& name) const;

  /// Lets the kernel drop the tensor's pages until it is read again.
  void release_pages(const std::string& name) const;

 private:
  struct Location {
    size_t file = 0;
    std::string published_name;
  };

  explicit WeightFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}
  void add_single(const std::filesystem::path& file);
  void add_shards(const std::filesystem::path& index);
  void add_name(size_t file, const std::string& published_name);

  std::filesystem::path folder_;
  std::vector<engine::SafetensorsFile> files_;
  std::map<std::string, Location> locations_;
};

}  // namespace espalier::models
