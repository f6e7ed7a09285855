// Tiny random models, of Qwen3 unless said otherwise, written to a temporary folder, for tests that
// break them one key at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gemm.h"
#include "engine/safetensors.h"
#include "engine/thread_pool.h"
#include "models/model.h"

namespace espalier::models::test {

/// A folder of its own that is removed with this object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Writes `text` to `name`, making the folders in between.
  void write(const std::filesystem::path& name, std::string_view text) const;

 private:
  std::filesystem::path path_;
};

/// A tensor's values, and how the file will store them. Values are made so that F32, F16 and BF16
/// all hold them exactly.
struct TestTensor {
  std::vector<size_t> shape;
  std::vector<float> values;
  engine::DataType dtype = engine::DataType::kF32;
};
using TestTensors = std::map<std::string, TestTensor>;

/// The bytes of a safetensors file.
std::string safetensors_bytes(const TestTensors& tensors);

struct TinyShape {
  size_t layers = 2;
  size_t hidden = 32;
  size_t intermediate = 48;
  size_t query_heads = 4;
  size_t kv_heads = 2;
  size_t head_dim = 12;  // not hidden / heads
  size_t vocabulary = 40;
  size_t positions = 1024;
};

/// A model folder's contents; change them, then write() them.
struct TinyModel {
  std::map<std::string, std::string> config;  // key of config.json -> its value as JSON
  TestTensors tensors;                        // by published name

  explicit TinyModel(const TinyShape& shape = {}, uint32_t seed = 1);

  /// Makes it one of "llama", "mistral", "qwen2" or "qwen3": its names, its norms and biases.
  void set_family(const std::string& model_type);
  /// Random biases for a product of every layer: "self_attn.o_proj". The config is the caller's.
  void add_biases(const std::string& product);

  std::string config_json() const;
  void set_dtype(engine::DataType dtype);
  void strip_prefix();  // "model.norm.weight" -> "norm.weight"
  /// config.json and model.safetensors.
  void write(const TemporaryFolder& folder) const;
};

/// A random tensor of the values described at TestTensor.
TestTensor random_tensor(std::vector<size_t> shape, uint32_t seed);

/// Model::load() with our own kernels in f32 and a pool of two threads.
Model load(const std::filesystem::path& folder, const LoadProgress& progress = {});

/// What `call` throws as std::runtime_error; "no error" when it throws nothing.
template <typename Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace espalier::models::test
