#include "models/gguf_config.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>

#include "models/gguf_keys.h"

namespace espalier::models {
namespace {

using engine::GgufFile;
using engine::GgufMetadata;
using engine::RopeScaling;
using engine::TensorView;

// As of config.json: far above every published model, low enough that no product overflows.
constexpr size_t kMaxLayers = 4096;
constexpr size_t kMaxWidth = size_t{1} << 20;
constexpr size_t kMaxHeads = 4096;
constexpr size_t kMaxHeadDim = 4096;
constexpr size_t kMaxVocabulary = size_t{1} << 26;
constexpr size_t kMaxPositions = size_t{1} << 22;
constexpr double kMaxFactor = 1e6;
constexpr double kMaxTheta = 1e12;

constexpr std::string_view kArchitectureKey = "general.architecture";
constexpr std::string_view kTokenEmbeddings = "token_embd.weight";
constexpr std::string_view kRopeDivisors = "rope_freqs.weight";
constexpr std::string_view kClassifier = "cls.output.weight";

const TensorView* find_tensor(const GgufFile& file, std::string_view name) {
  const auto found = file.tensors().find(std::string(name));
  return found == file.tensors().end() ? nullptr : &found->second;
}

bool has_tensor(const GgufFile& file, const std::string& name) {
  return file.tensors().contains(name) || file.other_types().contains(name);
}

std::string read_architecture(const GgufMetadata& metadata) {
  constexpr std::string_view kSupported[] = {"llama", "qwen2", "qwen3"};
  const auto found = metadata.text(kArchitectureKey);
  if (!found) metadata.fail(kArchitectureKey, "is missing");
  if (std::ranges::find(kSupported, *found) == std::end(kSupported)) {
    metadata.fail(kArchitectureKey, "'" + std::string(found->substr(0, 40)) +
                                        "' is not supported; supported: llama, qwen2, qwen3");
  }
  return std::string(*found);
}

/// As config.json names the class of a model with a classification head.
std::string classifier_class(const std::string& architecture) {
  std::string name = architecture + "ForSequenceClassification";
  name[0] = static_cast<char>(name[0] - 'a' + 'A');
  return name;
}

/// Files that are not one whole model.
void refuse_other_files(const GgufMetadata& metadata) {
  const auto type = metadata.text("general.type");
  if (type && *type != "model") {
    metadata.fail("general.type",
                  "the file is no model, but of type '" + std::string(type->substr(0, 40)) + "'");
  }
  const size_t parts = metadata.unsigned_integer("split.count").value_or(0);
  if (parts > 1) {
    metadata.fail("split.count", "the model is split into " + std::to_string(parts) +
                                     " files; join them with llama-gguf-split --merge");
  }
}

void read_sizes(const GgufFile& file, GgufKeys& keys, ModelConfig& config) {
  config.layers = keys.size("block_count", kMaxLayers);
  config.hidden_size = keys.size("embedding_length", kMaxWidth);
  config.intermediate_size = keys.size("feed_forward_length", kMaxWidth);
  config.query_heads = keys.size("attention.head_count", kMaxHeads);
  config.kv_heads = keys.size("attention.head_count_kv", kMaxHeads, config.query_heads);
  if (config.query_heads % config.kv_heads != 0) {
    keys.fail("attention.head_count", std::to_string(config.query_heads) +
                                          " is not a multiple of attention.head_count_kv, " +
                                          std::to_string(config.kv_heads));
  }
  if (!keys.has("attention.key_length") && config.hidden_size % config.query_heads != 0) {
    keys.fail("attention.key_length",
              "is missing, and embedding_length is not a multiple of attention.head_count");
  }
  config.head_dim = keys.size("attention.key_length", kMaxHeadDim,
                              std::max(config.hidden_size / config.query_heads, size_t{1}));
  if (config.head_dim % 2 != 0) {
    keys.fail("attention.key_length", std::to_string(config.head_dim) +
                                          " is not supported; rotary embedding needs an even one");
  }
  for (const char* key : {"attention.value_length", "rope.dimension_count"}) {
    if (keys.size(key, kMaxHeadDim, config.head_dim) != config.head_dim) {
      keys.fail(key,
                "is not supported unless it is that of keys, " + std::to_string(config.head_dim));
    }
  }
  const TensorView* const table = find_tensor(file, kTokenEmbeddings);
  if (table != nullptr && table->shape.size() == 2) config.vocab_size = table->shape[0];
  if (table != nullptr) config.table_bytes = table->data.size();
  if (config.vocab_size < 1 || config.vocab_size > kMaxVocabulary) {
    throw std::runtime_error(file.path().string() + ": " + std::string(kTokenEmbeddings) +
                             ": is missing, or not a table of token embeddings that can be read");
  }
  (void)keys.count("vocab_size", kMaxVocabulary);  // the table has as many rows as it has
}

/// Llama 3's stretching: a divisor for each frequency.
RopeScaling read_divisors(const GgufFile& file, const TensorView& tensor, size_t head_dim) {
  const auto refuse = [&](const std::string& reason) {
    throw std::runtime_error(file.path().string() + ": " + std::string(kRopeDivisors) + ": " +
                             reason);
  };
  if (tensor.elements() != head_dim / 2) {
    refuse("expected " + std::to_string(head_dim / 2) + " numbers, found " +
           std::to_string(tensor.elements()));
  }
  RopeScaling scaling;
  scaling.kind = RopeScaling::Kind::kDivided;
  scaling.divisors.resize(tensor.elements());
  engine::convert_to_f32(tensor, 0, tensor.elements(), scaling.divisors.data());
  for (const float divisor : scaling.divisors) {
    if (!(divisor > 0 && std::isfinite(divisor))) refuse("has a number that is not above 0");
  }
  return scaling;
}

RopeScaling read_yarn(GgufKeys& keys, double factor, size_t positions) {
  RopeScaling scaling;
  scaling.kind = RopeScaling::Kind::kYarn;
  scaling.factor = factor;
  scaling.original_positions = static_cast<double>(
      keys.size("rope.scaling.original_context_length", kMaxPositions, positions));
  scaling.beta_fast = keys.positive("rope.scaling.yarn_beta_fast", kMaxFactor, 32);
  scaling.beta_slow = keys.positive("rope.scaling.yarn_beta_slow", kMaxFactor, 1);
  if (scaling.beta_fast <= scaling.beta_slow) {
    keys.fail("rope.scaling.yarn_beta_fast", "must be above yarn_beta_slow");
  }
  if (keys.positive("rope.scaling.yarn_ext_factor", kMaxFactor, 1) != 1) {
    keys.fail("rope.scaling.yarn_ext_factor", "is not supported unless 1");
  }
  scaling.attention_factor = keys.positive("rope.scaling.attn_factor", kMaxFactor, 1) *
                             keys.positive("rope.scaling.yarn_attn_factor", kMaxFactor, 1) *
                             engine::yarn_attention_factor(factor);
  return scaling;
}

RopeScaling read_scaling(const GgufFile& file, GgufKeys& keys, const ModelConfig& config) {
  // Without a type a factor is linear; older files call that one rope.scale_linear.
  const double old_factor = keys.positive("rope.scale_linear", kMaxFactor, 1);
  const double factor = keys.positive("rope.scaling.factor", kMaxFactor, old_factor);
  const std::string type = keys.text("rope.scaling.type", factor == 1 ? "none" : "linear");
  (void)keys.boolean("rope.scaling.finetuned", true);
  if (type != "none" && type != "linear" && type != "yarn") {
    keys.fail("rope.scaling.type",
              "'" + type.substr(0, 40) + "' is not supported; supported: none, linear, yarn");
  }
  if (type != "none" && factor < 1) keys.fail("rope.scaling.factor", "must be at least 1");
  const TensorView* const divisors = find_tensor(file, kRopeDivisors);
  if (divisors != nullptr) {
    if (type != "none" && factor != 1) {
      keys.fail("rope.scaling.type", "is not supported beside " + std::string(kRopeDivisors));
    }
    return read_divisors(file, *divisors, config.head_dim);
  }
  if (type == "yarn") return read_yarn(keys, factor, config.rope_positions);
  RopeScaling scaling;
  if (type == "linear" && factor != 1) {
    scaling.kind = RopeScaling::Kind::kLinear;
    scaling.factor = factor;
  }
  return scaling;
}

void read_rope(const GgufFile& file, GgufKeys& keys, ModelConfig& config) {
  config.rope_positions = keys.size("context_length", kMaxPositions);
  config.rope_theta = keys.positive("rope.freq_base", kMaxTheta, 10000.0);
  config.rope_scaling = read_scaling(file, keys, config);
  if (config.rope_scaling.kind != RopeScaling::Kind::kYarn) return;
  if (config.rope_theta <= 1) keys.fail("rope.freq_base", "must be above 1 with YaRN");
  const double stretched = config.rope_scaling.original_positions * config.rope_scaling.factor;
  config.rope_positions =
      std::max(config.rope_positions,
               static_cast<size_t>(std::min(stretched, static_cast<double>(kMaxPositions))));
}

/// The type that most of the weights have.
std::string_view prevailing_type(const GgufFile& file) {
  std::map<engine::DataType, size_t> elements;
  for (const auto& [name, tensor] : file.tensors()) {
    if (name.starts_with("blk.")) elements[tensor.dtype] += tensor.elements();
  }
  if (elements.empty()) return "unknown";
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  return engine::name_of(std::ranges::max_element(elements, less)->first);
}

}  // namespace

bool is_gguf(const std::filesystem::path& model) {
  std::error_code error;
  return !std::filesystem::is_directory(model, error) && model.extension() == ".gguf";
}

ModelConfig read_gguf_config(const GgufFile& file) {
  const GgufMetadata& metadata = file.metadata();
  refuse_other_files(metadata);
  const std::string architecture = read_architecture(metadata);
  GgufKeys keys(metadata, architecture);
  if (!keys.boolean("attention.causal", true)) {
    keys.fail("attention.causal",
              "bidirectional attention is not supported: prefixes cannot be shared in it");
  }
  ModelConfig config;
  config.model_type = architecture;
  config.torch_dtype = prevailing_type(file);
  read_sizes(file, keys, config);
  read_rope(file, keys, config);
  config.rms_norm_eps =
      static_cast<float>(keys.positive("attention.layer_norm_rms_epsilon", 1, 1e-6));
  if (!keys.has("attention.layer_norm_rms_epsilon") || config.rms_norm_eps == 0) {
    keys.fail("attention.layer_norm_rms_epsilon", "is missing, or 0");
  }
  config.sliding_window = keys.count("attention.sliding_window", SIZE_MAX);
  config.max_positions = config.rope_positions;
  if (config.sliding_window != 0) {
    config.max_positions = std::min(config.max_positions, config.sliding_window);
  }
  // Read elsewhere, or without effect.
  (void)keys.has("pooling_type");
  (void)keys.has("classifier.output_labels");
  (void)keys.has("tensor_data_layout");
  (void)keys.has("rope.scaling.original_context_length");  // where nothing is stretched by YaRN
  keys.refuse_others();

  config.tied_embeddings = !has_tensor(file, "output.weight");
  config.qk_norm = architecture == "qwen3";
  config.qkv_bias = architecture == "qwen2" || has_tensor(file, "blk.0.attn_q.bias");
  config.output_bias = has_tensor(file, "blk.0.attn_output.bias");
  config.mlp_bias = has_tensor(file, "blk.0.ffn_down.bias");
  if (has_tensor(file, std::string(kClassifier))) {
    config.architecture = classifier_class(architecture);
  }
  return config;
}

EmbeddingConfig read_gguf_embedding_config(const GgufFile& file) {
  enum PoolingType : uint64_t { kNone, kMean, kFirst, kLast, kRank };  // llama.cpp's numbers
  const GgufMetadata& metadata = file.metadata();
  const std::string key = read_architecture(metadata) + ".pooling_type";
  EmbeddingConfig config;
  const uint64_t pooling = metadata.unsigned_integer(key).value_or(kNone);
  switch (pooling) {
    case kNone:
    case kRank:
      return config;
    case kMean:
      config.pooling = Pooling::kMean;
      break;
    case kFirst:
      config.pooling = Pooling::kFirstToken;
      break;
    case kLast:
      config.pooling = Pooling::kLastToken;
      break;
    default:
      metadata.fail(key, std::to_string(pooling) +
                             " is not supported; supported: 0 (none), 1 (mean), 2 (first), 3 "
                             "(last) and 4 (rank)");
  }
  config.has_pooling_module = true;
  return config;
}

RerankConfig read_gguf_rerank_config(const GgufFile& file) {
  RerankConfig config;
  const TensorView* const head = find_tensor(file, kClassifier);
  if (head == nullptr) return config;
  config.labels = head->shape.size() == 2 ? head->shape[0] : 1;
  if (config.labels != 1 && config.labels != 2) {
    throw std::runtime_error(file.path().string() + ": " + std::string(kClassifier) + ": " +
                             std::to_string(config.labels) +
                             " labels are not supported; a reranker has one or two");
  }
  (void)relevant_label_is_first(file);  // whether the labels can be told apart
  return config;
}

bool relevant_label_is_first(const GgufFile& file) {
  const GgufMetadata& metadata = file.metadata();
  const auto architecture = metadata.text(kArchitectureKey).value_or("");
  const std::string key = std::string(architecture) + ".classifier.output_labels";
  const auto labels = metadata.texts(key);
  if (!labels || labels->size() != 2) return false;
  if ((*labels)[0] == "yes" && (*labels)[1] == "no") return true;
  if (((*labels)[0] == "no" && (*labels)[1] == "yes") || (*labels)[0].starts_with("LABEL_")) {
    return false;
  }
  metadata.fail(key,
                "does not say which label is relevance; supported: [\"yes\", \"no\"], "
                "[\"no\", \"yes\"]");
}

}  // namespace espalier::models
