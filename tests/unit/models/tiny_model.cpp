#include "tests/unit/models/tiny_model.h"

#include <stdlib.h>

#include <bit>
#include <cctype>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>

namespace espalier::models::test {
namespace {

using engine::DataType;

uint16_t to_f16(float value) {
  if (value == 0.0F) return 0;
  int exponent = 0;
  const float fraction = std::frexp(std::fabs(value), &exponent);  // in [0.5, 1)
  const auto mantissa = static_cast<uint32_t>((fraction * 2 - 1) * 1024);
  const auto biased = static_cast<uint32_t>(exponent - 1 + 15);
  return static_cast<uint16_t>((std::signbit(value) ? 0x8000U : 0U) | biased << 10 | mantissa);
}

void append_little_endian(std::string& bytes, uint64_t value, size_t count) {
  for (size_t i = 0; i < count; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
}

std::string encoded(const TestTensor& tensor) {
  std::string bytes;
  for (const float value : tensor.values) {
    const auto bits = std::bit_cast<uint32_t>(value);
    switch (tensor.dtype) {
      case DataType::kF32:
        append_little_endian(bytes, bits, 4);
        break;
      case DataType::kBF16:
        append_little_endian(bytes, bits >> 16, 2);
        break;
      case DataType::kF16:
        append_little_endian(bytes, to_f16(value), 2);
        break;
      default:
        throw std::invalid_argument("safetensors have no blocks");
    }
  }
  return bytes;
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "espalier-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

void TemporaryFolder::write(const std::filesystem::path& name, std::string_view text) const {
  std::filesystem::create_directories((path_ / name).parent_path());
  std::ofstream stream(path_ / name, std::ios::binary);
  stream.write(text.data(), static_cast<std::streamsize>(text.size()));
  if (!stream) throw std::runtime_error("cannot write " + (path_ / name).string());
}

std::string safetensors_bytes(const TestTensors& tensors) {
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const size_t begin = data.size();
    data += encoded(tensor);
    header[name] = {{"dtype", engine::name_of(tensor.dtype)},
                    {"shape", tensor.shape},
                    {"data_offsets", {begin, data.size()}}};
  }
  std::string json = header.dump();
  json.resize((json.size() + 7) / 8 * 8, ' ');
  std::string bytes;
  append_little_endian(bytes, json.size(), 8);
  return bytes + json + data;
}

TestTensor random_tensor(std::vector<size_t> shape, uint32_t seed) {
  std::mt19937 random(seed);
  size_t count = 1;
  for (const size_t extent : shape) count *= extent;
  const bool is_norm = shape.size() == 1;
  TestTensor tensor{.shape = std::move(shape), .values = {}};
  for (size_t i = 0; i < count; ++i) {
    // Norms in [0.5, 1.5], matrices in ±1/4: seven significant bits at most.
    const auto k = static_cast<int>(random() % 127) - 63;
    tensor.values.push_back(is_norm ? 1.0F + static_cast<float>(k / 2) / 64.0F
                                    : static_cast<float>(k) / 256.0F);
  }
  return tensor;
}

TinyModel::TinyModel(const TinyShape& s, uint32_t seed) {
  config = {{"model_type", "\"qwen3\""},
            {"architectures", R"(["Qwen3ForCausalLM"])"},
            {"hidden_size", std::to_string(s.hidden)},
            {"intermediate_size", std::to_string(s.intermediate)},
            {"num_hidden_layers", std::to_string(s.layers)},
            {"num_attention_heads", std::to_string(s.query_heads)},
            {"num_key_value_heads", std::to_string(s.kv_heads)},
            {"head_dim", std::to_string(s.head_dim)},
            {"vocab_size", std::to_string(s.vocabulary)},
            {"max_position_embeddings", std::to_string(s.positions)},
            {"rms_norm_eps", "1e-6"},
            {"rope_theta", "10000"},
            {"tie_word_embeddings", "true"},
            {"hidden_act", "\"silu\""},
            {"attention_bias", "false"},
            {"rope_scaling", "null"},
            {"sliding_window", "null"},
            {"use_sliding_window", "false"},
            {"torch_dtype", "\"float32\""}};
  const auto add = [&](const std::string& name, std::vector<size_t> shape) {
    tensors["model." + name + ".weight"] = random_tensor(std::move(shape), seed++);
  };
  const size_t query_width = s.query_heads * s.head_dim;
  const size_t kv_width = s.kv_heads * s.head_dim;
  add("embed_tokens", {s.vocabulary, s.hidden});
  for (size_t i = 0; i < s.layers; ++i) {
    const std::string layer = "layers." + std::to_string(i) + ".";
    add(layer + "input_layernorm", {s.hidden});
    add(layer + "self_attn.q_proj", {query_width, s.hidden});
    add(layer + "self_attn.k_proj", {kv_width, s.hidden});
    add(layer + "self_attn.v_proj", {kv_width, s.hidden});
    add(layer + "self_attn.q_norm", {s.head_dim});
    add(layer + "self_attn.k_norm", {s.head_dim});
    add(layer + "self_attn.o_proj", {s.hidden, query_width});
    add(layer + "post_attention_layernorm", {s.hidden});
    add(layer + "mlp.gate_proj", {s.intermediate, s.hidden});
    add(layer + "mlp.up_proj", {s.intermediate, s.hidden});
    add(layer + "mlp.down_proj", {s.hidden, s.intermediate});
  }
  add("norm", {s.hidden});
}

void TinyModel::set_family(const std::string& model_type) {
  std::string name = model_type;
  name[0] = static_cast<char>(std::toupper(name[0]));
  config["model_type"] = '"' + model_type + '"';
  config["architectures"] = "[\"" + name + "ForCausalLM\"]";
  if (model_type == "qwen3") return;
  std::erase_if(tensors, [](const auto& tensor) {
    return tensor.first.ends_with("q_norm.weight") || tensor.first.ends_with("k_norm.weight");
  });
  if (model_type != "qwen2") return;
  for (const char* product : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}) {
    add_biases(product);
  }
}

void TinyModel::add_biases(const std::string& product) {
  TestTensors biases;
  for (const auto& [name, tensor] : tensors) {
    const size_t at = name.find("." + product + ".weight");
    if (at == std::string::npos) continue;
    TestTensor bias = random_tensor({tensor.shape[0]}, static_cast<uint32_t>(at + tensors.size()));
    for (float& value : bias.values) value -= 1.0F;  // not around a norm's 1
    biases[name.substr(0, at) + "." + product + ".bias"] = std::move(bias);
  }
  tensors.merge(biases);
}

std::string TinyModel::config_json() const {
  std::string json;
  for (const auto& [key, value] : config) {
    json += (json.empty() ? "{" : ", ") + ("\"" + key + "\": ") + value;
  }
  return json + "}";
}

void TinyModel::set_dtype(DataType dtype) {
  for (auto& [name, tensor] : tensors) tensor.dtype = dtype;
}

void TinyModel::strip_prefix() {
  TestTensors stripped;
  for (auto& [name, tensor] : tensors) {
    const bool has_prefix = name.compare(0, 6, "model.") == 0;
    stripped[has_prefix ? name.substr(6) : name] = std::move(tensor);
  }
  tensors = std::move(stripped);
}

void TinyModel::write(const TemporaryFolder& folder) const {
  folder.write("config.json", config_json());
  folder.write("model.safetensors", safetensors_bytes(tensors));
}

Model load(const std::filesystem::path& folder, const LoadProgress& progress) {
  return Model::load(folder,
                     engine::make_native_gemm(engine::NumberFormat::kF32, engine::usable_isa()),
                     std::make_shared<engine::ThreadPool>(2), progress);
}

}  // namespace espalier::models::test
