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

/// The tensors of one layer, by their role.
struct LayerTensors {
  ExpectedTensor input_norm, query, key, value, query_norm, key_norm, output;
  ExpectedTensor post_attention_norm, gate, up, down;
};

LayerTensors layer_tensors(const ModelConfig& config, size_t layer) {
  const size_t hidden = config.hidden_size;
  const size_t query_width = config.query_heads * config.head_dim;
  const size_t kv_width = config.kv_heads * config.head_dim;
  const auto name = [&](std::string_view part) {
    return "layers." + std::to_string(layer) + "." + std::string(part) + ".weight";
  };
  return {
      .input_norm = {name("input_layernorm"), {hidden}},
      .query = {name("self_attn.q_proj"), {query_width, hidden}},
      .key = {name("self_attn.k_proj"), {kv_width, hidden}},
      .value = {name("self_attn.v_proj"), {kv_width, hidden}},
      .query_norm = {name("self_attn.q_norm"), {config.head_dim}},
      .key_norm = {name("self_attn.k_norm"), {config.head_dim}},
      .output = {name("self_attn.o_proj"), {hidden, query_width}},
      .post_attention_norm = {name("post_attention_layernorm"), {hidden}},
      .gate = {name("mlp.gate_proj"), {config.intermediate_size, hidden}},
      .up = {name("mlp.up_proj"), {config.intermediate_size, hidden}},
      .down = {name("mlp.down_proj"), {hidden, config.intermediate_size}},
  };
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

  std::vector<float> vector(const ExpectedTensor& expected) const {
    const WeightTensor tensor = source_.tensor(expected);
    std::vector<float> values(tensor.view.elements());
    engine::convert_to_f32(tensor.view, 0, values.size(), values.data());
    done_with(expected);
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
  layer.input_norm = read.vector(t.input_norm);
  layer.query_key_value = read.matrix({&t.query, &t.key, &t.value});
  layer.query_norm = read.vector(t.query_norm);
  layer.key_norm = read.vector(t.key_norm);
  layer.output = read.matrix({&t.output});
  layer.post_attention_norm = read.vector(t.post_attention_norm);
  layer.gate_up = read.gated(t.gate, t.up);
  layer.down = read.matrix({&t.down});
  return layer;
}

std::string why_unexpected(const std::string& name) {
  if (name.compare(0, 6, "score.") == 0) {
    return "classification heads are not supported; rerankers score by the logits of \"yes\" and "
           "\"no\" (Qwen3ForCausalLM)";
  }
  if (name.compare(0, 7, "layers.") == 0) {
    return "does not belong to the layers that config.json describes, and would change results";
  }
  return "is not a tensor of a qwen3 decoder, and could change results";
}

}  // namespace

std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config) {
  std::vector<ExpectedTensor> all;
  all.push_back({kTokenEmbeddings, {config.vocab_size, config.hidden_size}});
  for (size_t layer = 0; layer < config.layers; ++layer) {
    LayerTensors t = layer_tensors(config, layer);
    for (ExpectedTensor* tensor :
         {&t.input_norm, &t.query, &t.key, &t.value, &t.query_norm, &t.key_norm, &t.output,
          &t.post_attention_norm, &t.gate, &t.up, &t.down}) {
      all.push_back(std::move(*tensor));
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

void check_tensors(const ModelConfig& config, const WeightSource& source) {
  std::set<std::string> known;
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
    if (!known.contains(name)) {
      throw std::runtime_error(source.describe(name) + ": " + why_unexpected(name));
    }
  }
}

DecoderWeights load_decoder_weights(const ModelConfig& config, const WeightSource& source,
                                    const engine::GemmBackend& gemm, engine::ThreadPool& pool,
                                    const std::function<void(size_t bytes)>& packed) {
  const WeightReader read(source, gemm, pool, packed);
  DecoderWeights weights;
  weights.token_embeddings =
      source.tensor({kTokenEmbeddings, {config.vocab_size, config.hidden_size}});
  for (size_t layer = 0; layer < config.layers; ++layer) {
    weights.layers.push_back(load_layer(layer_tensors(config, layer), read));
  }
  weights.final_norm = read.vector({kFinalNorm, {config.hidden_size}});
  return weights;
}

size_t packed_weight_bytes(const ModelConfig& config, const engine::GemmBackend& gemm) {
  const size_t hidden = config.hidden_size;
  const size_t query_width = config.query_heads * config.head_dim;
  const size_t kv_width = config.kv_heads * config.head_dim;
  const size_t layer = gemm.packed_bytes(query_width + 2 * kv_width, hidden) +
                       gemm.packed_bytes(hidden, query_width) +
                       gemm.packed_bytes(2 * config.intermediate_size, hidden) +
                       gemm.packed_bytes(hidden, config.intermediate_size) +
                       (2 * hidden + 2 * config.head_dim) * sizeof(float);
  return config.layers * layer + hidden * sizeof(float);
}

}  // namespace espalier::models
