#include "models/model_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "models/config_keys.h"
#include "models/families/family.h"
#include "models/gguf_config.h"
#include "models/json_file.h"
#include "models/known_code.h"
#include "models/rope_config.h"

namespace espalier::models {
namespace {

using engine::ActivationFunction;
using nlohmann::json;

// Far above every published model, low enough that no product of two of them overflows.
constexpr size_t kMaxLayers = 4096;
constexpr size_t kMaxWidth = size_t{1} << 20;
constexpr size_t kMaxHeads = 4096;
constexpr size_t kMaxHeadDim = 4096;
constexpr size_t kMaxVocabulary = size_t{1} << 26;

const Family& read_family(const JsonObject& object, const KnownCode* code) {
  if (code != nullptr) return *code->family;
  const std::string model_type = object.text("model_type", "");
  const Family* const family = find_family(model_type);
  if (family == nullptr) {
    object.fail("model_type", (object.has("model_type") ? excerpt(model_type) + " is not supported"
                                                        : std::string("is missing")) +
                                  "; supported: " + family_names());
  }
  return *family;
}

/// The first of `architectures`: the class that the checkpoint was saved from.
std::string read_architecture(const JsonObject& object, const Family& family,
                              const KnownCode* code) {
  if (code != nullptr) return std::string(code->architecture);
  if (!object.has("architectures")) return {};
  const json& architectures = object.at("architectures");
  if (!architectures.is_array() || (!architectures.empty() && !architectures[0].is_string())) {
    object.fail("architectures", "expected an array of strings, found " + excerpt(architectures));
  }
  if (architectures.empty()) return {};
  const auto found = architectures[0].get<std::string>();
  std::string supported;
  for (const char* suffix : {"ForCausalLM", "Model", "ForSequenceClassification"}) {
    const std::string name = std::string(family.class_prefix) + suffix;
    if (found == name) return found;
    supported += (supported.empty() ? "" : ", ") + name;
  }
  object.fail("architectures", excerpt(found) + " is not supported; supported for model_type " +
                                   std::string(family.model_type) + ": " + supported);
}

/// The adapters that a model comes with, one of which it needs; `task_names`.
std::vector<std::string> read_adapters(const JsonObject& object) {
  if (!object.has("task_names")) object.fail("task_names", "is missing");
  const json& names = object.at("task_names");
  const auto is_text = [](const json& name) { return name.is_string(); };
  if (!names.is_array() || names.empty() || !std::ranges::all_of(names, is_text)) {
    object.fail("task_names", "expected an array of strings, found " + excerpt(names));
  }
  return names.get<std::vector<std::string>>();
}

size_t read_head_dim(const JsonObject& object, const Family& family, const ModelConfig& config) {
  size_t head_dim = family.default_head_dim;
  if (object.has("head_dim")) {
    head_dim = object.size("head_dim", kMaxHeadDim);
  } else if (head_dim == 0) {
    if (config.hidden_size % config.query_heads != 0) {
      object.fail("head_dim",
                  "is missing, and hidden_size is not a multiple of num_attention_heads");
    }
    head_dim = config.hidden_size / config.query_heads;
  }
  if (head_dim % 2 != 0 || head_dim > kMaxHeadDim) {
    object.fail("head_dim", std::to_string(head_dim) +
                                " is not supported; rotary embedding needs an even one up to " +
                                std::to_string(kMaxHeadDim));
  }
  return head_dim;
}

void read_sizes(const JsonObject& object, const Family& family, ModelConfig& config) {
  config.layers = object.size("num_hidden_layers", kMaxLayers);
  config.hidden_size = object.size("hidden_size", kMaxWidth);
  config.intermediate_size = object.size("intermediate_size", kMaxWidth);
  config.query_heads = object.size("num_attention_heads", kMaxHeads);
  const bool defaulted = family.default_kv_heads != 0 && !object.is_null("num_key_value_heads");
  config.kv_heads = object.size("num_key_value_heads", kMaxHeads,
                                defaulted ? family.default_kv_heads : config.query_heads);
  config.vocab_size = object.size("vocab_size", kMaxVocabulary);
  if (config.query_heads % config.kv_heads != 0) {
    object.fail("num_attention_heads", std::to_string(config.query_heads) +
                                           " is not a multiple of num_key_value_heads, " +
                                           std::to_string(config.kv_heads));
  }
  config.head_dim = read_head_dim(object, family, config);
}

ActivationFunction read_activation(const JsonObject& object) {
  const std::string name = object.text("hidden_act", "silu");
  if (name == "silu" || name == "swish") return ActivationFunction::kSilu;
  if (name == "gelu") return ActivationFunction::kGelu;
  if (name == "gelu_pytorch_tanh" || name == "gelu_new" || name == "gelu_fast") {
    return ActivationFunction::kGeluTanh;
  }
  object.fail("hidden_act", excerpt(name) +
                                " is not supported; supported: silu, swish, gelu, "
                                "gelu_pytorch_tanh, gelu_new, gelu_fast");
}

void check_layer_types(const JsonObject& object, size_t layers) {
  if (!object.has("layer_types")) return;
  const json& types = object.at("layer_types");
  if (!types.is_array() || types.size() != layers) {
    object.fail("layer_types", "expected an array of num_hidden_layers = " +
                                   std::to_string(layers) + " strings, found " + excerpt(types));
  }
  for (const json& type : types) {
    if (type != "full_attention" && type != "sliding_attention") {
      object.fail("layer_types", excerpt(type) +
                                     " is not supported; supported: full_attention, and "
                                     "sliding_attention for inputs that fit its window");
    }
  }
}

float read_rms_norm_eps(const JsonObject& object) {
  const double eps = object.number("rms_norm_eps").value_or(1e-6);
  const auto narrowed = static_cast<float>(eps);
  if (!(narrowed > 0.0F && narrowed <= 1.0F)) {
    object.fail("rms_norm_eps", "must be above 0 and at most 1");
  }
  return narrowed;
}

}  // namespace

ModelConfig read_model_config(const std::filesystem::path& model) {
  if (is_gguf(model)) return read_gguf_config(engine::GgufFile::open(model));
  const std::filesystem::path file = model / "config.json";
  const json root = read_json_file(file);
  return read_model_config(JsonObject(root, file.string()));
}

ModelConfig read_model_config(const JsonObject& object) {
  const KnownCode* const code = find_known_code(object);
  const Family& family = read_family(object, code);
  // First: what refuses a model as a whole explains more than what is odd about its sizes.
  refuse_keys_that_change_results(object, code != nullptr);
  ModelConfig config;
  config.model_type = family.model_type;
  config.architecture = read_architecture(object, family, code);
  if (code != nullptr) {
    config.needed_adapters = read_adapters(object);
    config.merged_models = code->merged_models;
  }
  config.torch_dtype = object.text("torch_dtype", object.text("dtype", ""));
  config.qk_norm = family.qk_norm;
  config.qkv_bias = family.qkv_bias;
  read_sizes(object, family, config);
  config.activation = read_activation(object);
  config.rms_norm_eps = read_rms_norm_eps(object);
  config.tied_embeddings = object.boolean("tie_word_embeddings", false);
  read_rope(object, config);
  check_layer_types(object, config.layers);
  family.read(object, config);
  config.max_positions = config.rope_positions;
  if (config.sliding_window != 0) {
    config.max_positions = std::min(config.max_positions, config.sliding_window);
  }
  return config;
}

std::string limit_of_positions(const ModelConfig& config) {
  if (config.max_positions == config.sliding_window) {
    return "sliding_window: longer inputs would need it";
  }
  const bool stretched = config.rope_scaling.kind == engine::RopeScaling::Kind::kYarn;
  return stretched ? "rope_scaling" : "max_position_embeddings";
}

}  // namespace espalier::models
