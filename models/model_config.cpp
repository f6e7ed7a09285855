#include "models/model_config.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "models/json_file.h"

namespace espalier::models {
namespace {

using nlohmann::json;

// Far above every published model, low enough that no product of two of them overflows.
constexpr size_t kMaxLayers = 4096;
constexpr size_t kMaxWidth = size_t{1} << 20;
constexpr size_t kMaxHeads = 4096;
constexpr size_t kMaxHeadDim = 4096;
constexpr size_t kMaxVocabulary = size_t{1} << 26;
constexpr size_t kMaxPositions = size_t{1} << 22;

void read_identity(const JsonObject& object, ModelConfig& config) {
  if (!object.has("model_type")) object.fail("model_type", "is missing; supported: qwen3");
  config.model_type = object.text("model_type", "");
  if (config.model_type != "qwen3") {
    object.fail("model_type", excerpt(config.model_type) + " is not supported; supported: qwen3");
  }
  config.torch_dtype = object.text("torch_dtype", object.text("dtype", ""));
  if (!object.has("architectures")) return;
  const json& architectures = object.at("architectures");
  if (!architectures.is_array() || (!architectures.empty() && !architectures[0].is_string())) {
    object.fail("architectures", "expected an array of strings, found " + excerpt(architectures));
  }
  if (architectures.empty()) return;
  config.architecture = architectures[0].get<std::string>();
  if (config.architecture != "Qwen3ForCausalLM" && config.architecture != "Qwen3Model") {
    object.fail("architectures", excerpt(config.architecture) +
                                     " is not supported; supported: Qwen3ForCausalLM, Qwen3Model "
                                     "(rerankers score by the logits of \"yes\" and \"no\", not by "
                                     "a classification head)");
  }
}

void refuse_sliding_window(const JsonObject& object) {
  // An absent sliding_window means 4096 to Hugging Face's Qwen3Config; an explicit null means none.
  if (object.boolean("use_sliding_window", false) && !object.is_null("sliding_window")) {
    object.fail("use_sliding_window",
                "sliding-window attention is not supported; every layer must see all positions");
  }
}

/// Whatever changes results and is not implemented.
void refuse_unsupported(const JsonObject& object) {
  if (object.text("hidden_act", "silu") != "silu") {
    object.fail("hidden_act", excerpt(object.at("hidden_act")) + " is not supported; needs silu");
  }
  if (object.boolean("attention_bias", false)) {
    object.fail("attention_bias", "biases in attention are not supported");
  }
  if (object.has("quantization_config")) {
    object.fail("quantization_config",
                "quantised checkpoints are not supported; weights must be BF16, F16 or F32");
  }
  if (!object.boolean("is_causal", true)) {
    object.fail("is_causal",
                "bidirectional attention is not supported: prefixes cannot be shared in it");
  }
  if (object.boolean("use_bidirectional_attention", false)) {
    object.fail("use_bidirectional_attention",
                "bidirectional attention is not supported: prefixes cannot be shared in it");
  }
  if (object.has("auto_map")) {
    object.fail("auto_map", "models with code of their own (trust_remote_code) are not supported");
  }
  refuse_sliding_window(object);
}

void check_layer_types(const JsonObject& object, size_t layers) {
  if (!object.has("layer_types")) return;
  const json& types = object.at("layer_types");
  if (!types.is_array() || types.size() != layers) {
    object.fail("layer_types", "expected an array of num_hidden_layers = " +
                                   std::to_string(layers) + " strings, found " + excerpt(types));
  }
  for (const json& type : types) {
    if (type != "full_attention") {
      object.fail("layer_types", excerpt(type) + " is not supported; supported: full_attention");
    }
  }
}

void read_sizes(const JsonObject& object, ModelConfig& config) {
  config.layers = object.size("num_hidden_layers", kMaxLayers);
  config.hidden_size = object.size("hidden_size", kMaxWidth);
  config.intermediate_size = object.size("intermediate_size", kMaxWidth);
  config.query_heads = object.size("num_attention_heads", kMaxHeads);
  config.kv_heads = object.size("num_key_value_heads", kMaxHeads);
  config.vocab_size = object.size("vocab_size", kMaxVocabulary);
  config.max_positions = object.size("max_position_embeddings", kMaxPositions);
  if (config.query_heads % config.kv_heads != 0) {
    object.fail("num_attention_heads", std::to_string(config.query_heads) +
                                           " is not a multiple of num_key_value_heads, " +
                                           std::to_string(config.kv_heads));
  }
  if (object.has("head_dim")) {
    config.head_dim = object.size("head_dim", kMaxHeadDim);
  } else if (config.hidden_size % config.query_heads == 0) {
    config.head_dim = config.hidden_size / config.query_heads;
  } else {
    object.fail("head_dim", "is missing, and hidden_size is not a multiple of num_attention_heads");
  }
  if (config.head_dim % 2 != 0 || config.head_dim > kMaxHeadDim) {
    object.fail("head_dim", std::to_string(config.head_dim) +
                                " is not supported; rotary embedding needs an even one up to " +
                                std::to_string(kMaxHeadDim));
  }
}

/// Refuses whatever is not plain rotary embedding over the whole head, in `rope` (rope_scaling, or
/// rope_parameters of newer configs).
void refuse_rope_variants(const JsonObject& rope) {
  const std::string type = rope.text("rope_type", rope.text("type", ""));
  if (type != "default") {
    rope.fail("rope_type", type.empty() ? "is missing; supported: default"
                                        : excerpt(type) + " is not supported; supported: default");
  }
}

double read_rope_theta(const JsonObject& config) {
  std::optional<double> theta;
  const auto read_from = [&](const JsonObject& object) {
    if (object.number("partial_rotary_factor").value_or(1.0) != 1.0) {
      object.fail("partial_rotary_factor", "is not supported unless 1: heads are rotated whole");
    }
    const std::optional<double> value = object.number("rope_theta");
    if (!value) return;
    if (*value <= 0) object.fail("rope_theta", "must be positive");
    if (theta && *theta != *value) object.fail("rope_theta", "contradicts another rope_theta");
    theta = value;
  };
  read_from(config);
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const std::optional<JsonObject> rope = config.object(key);
    if (!rope) continue;
    refuse_rope_variants(*rope);
    read_from(*rope);
  }
  return theta.value_or(10000.0);
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

ModelConfig read_model_config(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "config.json";
  const json root = read_json_file(file);
  const JsonObject object(root, file.string());
  ModelConfig config;
  read_identity(object, config);
  refuse_unsupported(object);
  read_sizes(object, config);
  check_layer_types(object, config.layers);
  config.rope_theta = read_rope_theta(object);
  config.rms_norm_eps = read_rms_norm_eps(object);
  config.tied_embeddings = object.boolean("tie_word_embeddings", false);
  return config;
}

}  // namespace espalier::models
