// The weights of a GGUF file, under Hugging Face's names.
//
// Thread contract: as WeightSource.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "engine/gguf_file.h"
#include "models/weight_source.h"

namespace espalier::models {

class GgufWeights final : public WeightSource {
 public:
  /// Throws std::runtime_error naming file, tensor or key, and reason.
  static GgufWeights open(const std::filesystem::path& path);

  bool contains(const std::string& name) const override { return published_.contains(name); }
  void check(const ExpectedTensor& expected) const override { (void)view(expected); }

  /// In the map; but rows that stand in another order than Hugging Face's are copied into that one:
  /// queries and keys of a `llama` file, and a classifier whose first label is the relevant one.
  WeightTensor tensor(const ExpectedTensor& expected) const override;

  std::vector<std::string> names() const override;
  std::string describe(const std::string& name) const override;
  size_t stored_bytes(const std::string& name) const override;
  void release_pages(const std::string& name) const override;

 private:
  explicit GgufWeights(engine::GgufFile file);
  const engine::TensorView& view(const ExpectedTensor& expected) const;
  const engine::TensorView* find(const std::string& name) const;
  size_t interleaved_heads(const std::string& name) const;

  engine::GgufFile file_;
  std::map<std::string, std::string> published_;  // name -> the file's name
  // Where rotary embedding turns neighbouring rows (llama) rather than a head's halves.
  bool interleaved_ = false;
  size_t query_heads_ = 0, kv_heads_ = 0;
  bool relevant_label_is_first_ = false;
};

}  // namespace espalier::models
