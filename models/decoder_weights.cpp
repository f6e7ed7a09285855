#include "models/decoder_weights.h"

#include <initializer_list>
#include <set>
#include <stdexcept>
#include <string_view>

namespace espalier::models {
namespace {

constexpr char kTokenEmbeddings[] = "embed_tokens.weight";
constexpr char kFinalNorm[] = "norm.weight";
constexpr char kHead[] = "lm_head.weight";

/// The tensors of one layer, by their role. Those that the model's family does not have are without
/// a name.
struct LayerTensors {
  ExpectedTensor input_norm, query, key, value, query_norm, key_norm, output;
  ExpectedTensor post_attention_norm, gate, up, down;
  ExpectedTensor query_bias, key_bias, value_bias, output_bias, gate_bias, up_bias, down_bias;
};

LayerTensors layer_tensors(const ModelConfig& config, size_t layer) {
  const size_t hidden = config.hidden_size;
  const size_t intermediate = config.intermediate_size;
  const size_t query_width = config.query_heads * config.head_dim;
  const size_t kv_width = config.kv_heads * config.head_dim;
  const std::string prefix = "layers." + std::to_string(layer) + ".";
  const auto weight = [&](std::string_view part, std::vector<size_t> shape) {
    return ExpectedTensor{prefix + std::string(part) + ".weight", std::move(shape)};
  };
  const auto bias_if = [&](bool there, std::string_view part, size_t outputs) {
    if (!there) return ExpectedTensor{};
    return ExpectedTensor{prefix + std::string(part) + ".bias", {outputs}};
  };
  LayerTensors t{
      .input_norm = weight("input_layernorm", {hidden}),
      .query = weight("self_attn.q_proj", {query_width, hidden}),
      .key = weight("self_attn.k_proj", {kv_width, hidden}),
      .value = weight("self_attn.v_proj", {kv_width, hidden}),
      .query_norm = {},
      .key_norm = {},
      .output = weight("self_attn.o_proj", {hidden, query_width}),
      .post_attention_norm = weight("post_attention_layernorm", {hidden}),
      .gate = weight("mlp.gate_proj", {intermediate, hidden}),
      .up = weight("mlp.up_proj", {intermediate, hidden}),
      .down = weight("mlp.down_proj", {hidden, intermediate}),
      .query_bias = bias_if(config.qkv_bias, "self_attn.q_proj", query_width),
      .key_bias = bias_if(config.qkv_bias, "self_attn.k_proj", kv_width),
      .value_bias = bias_if(config.qkv_bias, "self_attn.v_proj", kv_width),
      .output_bias = bias_if(config.output_bias, "self_attn.o_proj", hidden),
      .gate_bias = bias_if(config.mlp_bias, "mlp.gate_proj", intermediate),
      .up_bias = bias_if(config.mlp_bias, "mlp.up_proj", intermediate),
      .down_bias = bias_if(config.mlp_bias, "mlp.down_proj", hidden),
  };
  if (config.qk_norm) {
    t.query_norm = weight("self_attn.q_norm", {config.head_dim});
    t.key_norm = weight("self_attn.k_norm", {config.head_dim});
  }
  return t;
}

/// Reads tensors one product at a time and lets go of their pages.
class WeightReader {
 public:
  WeightReader(const WeightSource& source, const engine::GemmBackend& gemm,
               engine::ThreadPool& pool, const std::function<void(size_t bytes)>& packed)
      : source_(source), gemm_(gemm), pool_(pool), packed_(packed) {}

  std::unique_ptr<engine::PackedMatrix> matrix(
      std::initializer_list<const ExpectedTensor*> stacked) const {
    std::vector<WeightTensor> tensors;
    std::vector<engine::TensorView> views;
    for (const ExpectedTensor* part : stacked) {
      views.push_back(tensors.emplace_back(source_.tensor(*part)).view);
    }
    std::unique_ptr<engine::PackedMatrix> matrix = gemm_.pack(pool_, views);
    for (const ExpectedTensor* part : stacked) done_with(*part);
    return matrix;
  }

  std::unique_ptr<engine::PackedMatrix> gated(const ExpectedTensor& gate,
                                              const ExpectedTensor& up) const {
    std::unique_ptr<engine::PackedMatrix> matrix =
        gemm_.pack_gated(pool_, source_.tensor(gate).view, source_.tensor(up).view);
    done_with(gate);
    done_with(up);
    return matrix;
  }

  /// The values of the tensors one after the other; none for those without a name.
  std::vector<float> vector(std::initializer_list<const ExpectedTensor*> parts) const {
    std::vector<float> values;
    for (const ExpectedTensor* part : parts) {
      if (part->name.empty()) continue;
      const WeightTensor tensor = source_.tensor(*part);
      const size_t begin = values.size();
      values.resize(begin + tensor.view.elements());
      engine::convert_to_f32(tensor.view, 0, tensor.view.elements(), &values[begin]);
      done_with(*part);
    }
    return values;
  }

 private:
  void done_with(const ExpectedTensor& tensor) const {
    source_.release_pages(tensor.name);
    packed_(source_.stored_bytes(tensor.name));
  }

  const WeightSource& source_;
  const engine::GemmBackend& gemm_;
  engine::ThreadPool& pool_;
  const std::function<void(size_t bytes)>& packed_;
};

LayerWeights load_layer(const LayerTensors& t, const WeightReader& read) {
  LayerWeights layer;
  layer.input_norm = read.vector({&t.input_norm});
  layer.query_key_value = read.matrix({&t.query, &t.key, &t.value});
  layer.query_key_value_bias = read.vector({&t.query_bias, &t.key_bias, &t.value_bias});
  layer.query_norm = read.vector({&t.query_norm});
  layer.key_norm = read.vector({&t.key_norm});
  layer.output = read.matrix({&t.output});
  layer.output_bias = read.vector({&t.output_bias});
  layer.post_attention_norm = read.vector({&t.post_attention_norm});
  layer.gate_up = read.gated(t.gate, t.up);
  layer.gate_up_bias = read.vector({&t.gate_bias, &t.up_bias});
  layer.down = read.matrix({&t.down});
  layer.down_bias = read.vector({&t.down_bias});
  return layer;
}

/// Frequencies that old checkpoints carry along; they follow from the configuration.
bool is_frequencies(const std::string& name) { return name.ends_with("rotary_emb.inv_freq"); }

std::string why_unexpected(const ModelConfig& config, const std::string& name) {
  if (name.starts_with("score.")) {
    return "classification heads are for architectures " + config.model_type +
           "…ForSequenceClassification; config.json does not name one";
  }
  if (name.ends_with(".bias")) {
    return "is a bias that models of model_type " + config.model_type +
           " with this config.json do not have, and would change results";
  }
  if (name.starts_with("layers.")) {
    return "does not belong to the layers that config.json describes, and would change results";
  }
  return "is not a tensor of a " + config.model_type + " decoder, and could change results";
}

}  // namespace

std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config) {
  std::vector<ExpectedTensor> all;
  all.push_back({kTokenEmbeddings, {config.vocab_size, config.hidden_size}});
  for (size_t layer = 0; layer < config.layers; ++layer) {
    LayerTensors t = layer_tensors(config, layer);
    for (ExpectedTensor* tensor :
         {&t.input_norm, &t.query, &t.key, &t.value, &t.query_bias, &t.key_bias, &t.value_bias,
          &t.query_norm, &t.key_norm, &t.output, &t.output_bias, &t.post_attention_norm, &t.gate,
          &t.up, &t.gate_bias, &t.up_bias, &t.down, &t.down_bias}) {
      if (!tensor->name.empty()) all.push_back(std::move(*tensor));
    }
  }
  all.push_back({kFinalNorm, {config.hidden_size}});
  return all;
}

ExpectedTensor head_tensor(const ModelConfig& config, const WeightSource& source) {
  const std::vector<size_t> shape = {config.vocab_size, config.hidden_size};
  if (config.tied_embeddings) return {kTokenEmbeddings, shape};
  if (source.contains(kHead)) return {kHead, shape};
  return {};
}

void check_tensors(const ModelConfig& config, const WeightSource& source,
                   const std::set<std::string>& read_elsewhere) {
  std::set<std::string> known = read_elsewhere;
  for (const ExpectedTensor& expected : expected_tensors(config)) {
    source.check(expected);
    known.insert(expected.name);
  }
  // A tied model may bring a copy of its table as lm_head.weight; Hugging Face does not read it
  // either.
  known.insert(kHead);
  const ExpectedTensor head = head_tensor(config, source);
  if (!head.name.empty()) source.check(head);
  for (const std::string& name : source.names()) {
    if (!known.contains(name) && !is_frequencies(name)) {
      throw std::runtime_error(source.describe(name) + ": " + why_unexpected(config, name));
    }
  }
}

DecoderWeights load_decoder_weights(const ModelConfig& config, const WeightSource& source,
                                    const engine::GemmBackend& gemm, engine::ThreadPool& pool,
                                    const std::function<void(size_t bytes)>& packed) {
  const WeightReader read(source, gemm, pool, packed);
  const ExpectedTensor final_norm{kFinalNorm, {config.hidden_size}};
  DecoderWeights weights;
  weights.token_embeddings =
      source.tensor({kTokenEmbeddings, {config.vocab_size, config.hidden_size}});
  for (size_t layer = 0; layer < config.layers; ++layer) {
    weights.layers.push_back(load_layer(layer_tensors(config, layer), read));
  }
  weights.final_norm = read.vector({&final_norm});
  return weights;
}

size_t packed_weight_bytes(const ModelConfig& config, const engine::GemmBackend& gemm) {
  const size_t hidden = config.hidden_size;
  const size_t query_width = config.query_heads * config.head_dim;
  const size_t kv_width = config.kv_heads * config.head_dim;
  const size_t vectors = 2 * hidden + (config.qk_norm ? 2 * config.head_dim : 0) +
                         (config.qkv_bias ? query_width + 2 * kv_width : 0) +
                         (config.output_bias ? hidden : 0) +
                         (config.mlp_bias ? 2 * config.intermediate_size + hidden : 0);
  const size_t layer = gemm.packed_bytes(query_width + 2 * kv_width, hidden) +
                       gemm.packed_bytes(hidden, query_width) +
                       gemm.packed_bytes(2 * config.intermediate_size, hidden) +
                       gemm.packed_bytes(hidden, config.intermediate_size) +
                       vectors * sizeof(float);
  return config.layers * layer + hidden * sizeof(float);
}

}  // namespace espalier::models
