// One hostile file in the folder of a tiny model with an adapter: whatever its bytes say, the
// readers either throw std::runtime_error or return what the rest of the program can rely on.
//
// Input: a byte that chooses the file, then the file.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "models/decoder_weights.h"
#include "models/dense_layer.h"
#include "models/embedding_config.h"
#include "models/lora.h"
#include "models/lora_config.h"
#include "models/model_config.h"
#include "models/rerank_config.h"
#include "models/weight_files.h"
#include "tests/unit/models/tiny_model.h"

namespace {

using namespace espalier::models;

constexpr char kQuery[] = "layers.0.self_attn.q_proj";

void require(bool holds) {
  if (!holds) std::abort();
}

constexpr std::array kFiles = {"config.json",
                               "modules.json",
                               "1_Pooling/config.json",
                               "2_Dense/config.json",
                               "config_sentence_transformers.json",
                               "sentence_bert_config.json",
                               "1_LogitScore/config.json",
                               "adapters/task/adapter_config.json",
                               "adapters/task/adapter_model.safetensors",
                               "model.safetensors",
                               "model.safetensors.index.json",
                               "2_Dense/model.safetensors"};

/// The folder as it is when nothing is wrong with it.
class Folder {
 public:
  Folder() : model_(test::TinyShape{.layers = 1}) {
    model_.write(folder_);
    folder_.write("modules.json",
                  R"([{"type": "sentence_transformers.models.Transformer", "path": ""},
      {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
      {"type": "sentence_transformers.models.Dense", "path": "2_Dense"},
      {"type": "sentence_transformers.models.Normalize", "path": "3_Normalize"}])");
    folder_.write("1_Pooling/config.json", R"({"pooling_mode_lasttoken": true})");
    folder_.write("2_Dense/config.json",
                  R"({"in_features": 32, "out_features": 4, "bias": false})");
    folder_.write("2_Dense/model.safetensors",
                  test::safetensors_bytes({{"linear.weight", test::random_tensor({4, 32}, 1)}}));
    folder_.write("adapters/task/adapter_config.json",
                  R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4})");
    folder_.write("adapters/task/adapter_model.safetensors", adapter());
  }

  const std::filesystem::path& path() const { return folder_.path(); }

  void put(const std::string& name, std::string_view contents) {
    const std::filesystem::path file = path() / name;
    changed_ = file;
    std::error_code error;
    saved_ = std::filesystem::exists(file, error) ? path() / "saved" : std::filesystem::path();
    if (!saved_.empty()) std::filesystem::rename(file, saved_);
    folder_.write(name, contents);
  }

  void restore() {
    std::filesystem::remove(changed_);
    if (!saved_.empty()) std::filesystem::rename(saved_, changed_);
  }

 private:
  static std::string adapter() {
    const std::string prefix = std::string("base_model.model.") + kQuery;
    return test::safetensors_bytes({{prefix + ".lora_A.weight", test::random_tensor({2, 32}, 2)},
                                    {prefix + ".lora_B.weight", test::random_tensor({48, 2}, 3)}});
  }

  test::TinyModel model_;
  test::TemporaryFolder folder_;
  std::filesystem::path changed_, saved_;
};

template <typename Read>
void read_or_refuse(const Read& read) {
  try {
    read();
  } catch (const std::runtime_error& error) {
    require(*error.what() != '\0');
  }
}

void read_lora(const std::filesystem::path& adapter) {
  const LoraConfig config = read_lora_config(adapter);
  for (const char* module : {kQuery, "layers.0.mlp.down_proj", "x", ""}) {
    require(config.rank_of(module) >= 1 && config.rank_of(module) <= size_t{1} << 16U);
    require(std::isfinite(config.scale_of(module)));
  }
}

void read_embedding(const std::filesystem::path& folder) {
  const EmbeddingConfig config = read_embedding_config(folder);
  (void)embedding_size(config, 32);
  for (const DenseConfig& dense : config.dense) {
    require(dense.inputs >= 1 && dense.outputs >= 1);
    const DenseLayer layer = DenseLayer::load(dense);
    require(layer.apply(std::vector<float>(dense.inputs)).size() == dense.outputs);
  }
}

void read_weights(const std::filesystem::path& folder) {
  const ModelConfig config = read_model_config(folder);
  const auto adapted = LoraWeights::open(
      std::make_unique<const WeightFiles>(WeightFiles::open(folder)), {folder / "adapters/task"});
  check_tensors(config, *adapted);
  for (const ExpectedTensor& expected : expected_tensors(config)) {
    const WeightTensor tensor = adapted->tensor(expected);
    require(tensor.view.shape == expected.shape);
    require(tensor.view.data.size() ==
            espalier::engine::tensor_bytes(tensor.view.dtype, expected.shape));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Folder folder;
  if (size < 1) return 0;
  folder.put(kFiles[data[0] % kFiles.size()], {reinterpret_cast<const char*>(data) + 1, size - 1});
  read_or_refuse([&] { read_embedding(folder.path()); });
  read_or_refuse([&] {
    const RerankConfig rerank = read_rerank_config(folder.path());
    require(rerank.labels <= 2 && rerank.classifier_tokens.size() <= 2);
  });
  read_or_refuse([&] { read_lora(folder.path() / "adapters/task"); });
  read_or_refuse([&] { read_weights(folder.path()); });
  folder.restore();
  return 0;
}
