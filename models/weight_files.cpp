#include "models/weight_files.h"

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "models/json_file.h"

namespace espalier::models {
namespace {

using nlohmann::json;
using Path = std::filesystem::path;

constexpr std::string_view kPrefix = "model.";

std::string without_prefix(const std::string& name) {
  return name.compare(0, kPrefix.size(), kPrefix) == 0 ? name.substr(kPrefix.size()) : name;
}

/// A shard is a plain file name, so that an index cannot lead out of the model folder.
void check_shard_name(const JsonObject& weight_map, const std::string& tensor,
                      const std::string& shard) {
  constexpr std::string_view kSuffix = ".safetensors";
  const bool plain = shard.size() > kSuffix.size() &&
                     shard.compare(shard.size() - kSuffix.size(), kSuffix.size(), kSuffix) == 0 &&
                     shard.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
  if (!plain) {
    weight_map.fail(
        tensor, "expected the name of a .safetensors file in this folder, found " + excerpt(shard));
  }
}

}  // namespace

WeightFiles WeightFiles::open(const Path& folder) {
  WeightFiles weights(folder);
  // The order in which Hugging Face looks for them.
  if (has_file(folder, "model.safetensors")) {
    weights.add_single(folder / "model.safetensors");
  } else if (has_file(folder, "model.safetensors.index.json")) {
    weights.add_shards(folder / "model.safetensors.index.json");
  } else {
    throw std::runtime_error(folder.string() +
                             ": has neither model.safetensors nor model.safetensors.index.json; "
                             "weights in other formats are not supported");
  }
  return weights;
}

void WeightFiles::add_single(const Path& file) {
  files_.push_back(engine::SafetensorsFile::open(file));
  const size_t index = files_.size() - 1;
  for (const auto& [name, tensor] : files_[index].tensors()) add_name(index, name);
  for (const auto& [name, dtype] : files_[index].other_dtypes()) add_name(index, name);
}

void WeightFiles::add_shards(const Path& index) {
  const json root = read_json_file(index);
  const JsonObject object(root, index.string());
  const std::optional<JsonObject> weight_map = object.object("weight_map");
  if (!weight_map) object.fail("weight_map", "is missing");
  std::map<std::string, size_t> file_of_shard;
  for (const auto& [name, value] : root["weight_map"].items()) {
    const std::string shard = weight_map->text(name, "");
    check_shard_name(*weight_map, name, shard);
    const auto [entry, is_new] = file_of_shard.try_emplace(shard, files_.size());
    if (is_new) add_single(folder_ / shard);
    const auto location = locations_.find(without_prefix(name));
    if (location == locations_.end() || location->second.file != entry->second ||
        location->second.published_name != name) {
      weight_map->fail(name, "is not in " + shard);
    }
  }
}

void WeightFiles::add_name(size_t file, const std::string& published_name) {
  const auto [entry, is_new] =
      locations_.try_emplace(without_prefix(published_name), Location{file, published_name});
  if (!is_new) {
    throw std::runtime_error(files_[file].path().string() + ": " + published_name +
                             ": is there twice, also as " + describe(entry->first));
  }
}

WeightTensor WeightFiles::tensor(const ExpectedTensor& expected) const {
  const auto found = locations_.find(expected.name);
  if (found == locations_.end()) {
    throw std::runtime_error(files_.size() == 1 ? files_[0].path().string() + ": " + expected.name +
                                                      ": is missing (also as " +
                                                      std::string(kPrefix) + expected.name + ")"
                                                : folder_.string() + ": " + expected.name +
                                                      ": is missing in all " +
                                                      std::to_string(files_.size()) + " shards");
  }
  const Location& location = found->second;
  const engine::SafetensorsFile& file = files_[location.file];
  const auto other = file.other_dtypes().find(location.published_name);
  if (other != file.other_dtypes().end()) {
    throw std::runtime_error(describe(expected.name) + ": expected dtype F32, F16 or BF16, found " +
                             other->second);
  }
  const engine::TensorView& tensor = file.tensors().at(location.published_name);
  if (tensor.shape != expected.shape) {
    throw std::runtime_error(describe(expected.name) + ": expected shape " +
                             engine::shape_text(expected.shape) + ", found " +
                             engine::shape_text(tensor.shape));
  }
  return {tensor, nullptr};
}

std::vector<std::string> WeightFiles::names() const {
  std::vector<std::string> names;
  names.reserve(locations_.size());
  for (const auto& [name, location] : locations_) names.push_back(name);
  return names;
}

std::string WeightFiles::describe(const std::string& name) const {
  const Location& location = locations_.at(name);
  return files_[location.file].path().string() + ": " + location.published_name;
}

/// Null for a tensor of a dtype that is not read; the name must be there.
const engine::TensorView* WeightFiles::find(const std::string& name) const {
  const Location& location = locations_.at(name);
  const auto& tensors = files_[location.file].tensors();
  const auto tensor = tensors.find(location.published_name);
  return tensor == tensors.end() ? nullptr : &tensor->second;
}

size_t WeightFiles::stored_bytes(const std::string& name) const {
  const engine::TensorView* const tensor = find(name);
  return tensor == nullptr ? 0 : tensor->data.size();
}

void WeightFiles::release_pages(const std::string& name) const {
  const engine::TensorView* const tensor = find(name);
  if (tensor != nullptr) files_[locations_.at(name).file].release_pages(*tensor);
}

}  // namespace espalier::models
