#include "models/gguf_weights.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "models/gguf_config.h"

namespace espalier::models {
namespace {

using engine::GgufFile;
using engine::TensorView;

struct NamePair {
  std::string_view ggml, ours;
};

constexpr NamePair kModelNames[] = {{"token_embd", "embed_tokens"},
                                    {"output_norm", "norm"},
                                    {"output", "lm_head"},
                                    {"cls.output", "score"}};
constexpr NamePair kLayerNames[] = {
    {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
    {"attn_q_norm", "self_attn.q_norm"}, {"attn_k_norm", "self_attn.k_norm"},
    {"attn_output", "self_attn.o_proj"}, {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"}};
constexpr std::string_view kLayerPrefix = "blk.";
/// Read with the configuration; no weight.
constexpr std::string_view kRopeDivisors = "rope_freqs.weight";

template <size_t N>
std::string_view ours(const NamePair (&pairs)[N], std::string_view ggml) {
  const auto* const found = std::ranges::find(pairs, ggml, &NamePair::ggml);
  return found == std::end(pairs) ? std::string_view() : found->ours;
}

/// "layers.0.self_attn.q_proj.weight" of "blk.0.attn_q.weight"; a name that is not known stays.
std::string hugging_face_name(const std::string& published) {
  const size_t dot = published.rfind('.');  // before "weight" or "bias"
  if (dot == std::string::npos) return published;
  const std::string_view stem = std::string_view(published).substr(0, dot);
  std::string prefix;
  std::string_view name;
  if (stem.starts_with(kLayerPrefix)) {
    const size_t part = stem.find('.', kLayerPrefix.size());
    if (part == std::string::npos) return published;
    const std::string_view number = stem.substr(kLayerPrefix.size(), part - kLayerPrefix.size());
    prefix = "layers." + std::string(number) + ".";
    name = ours(kLayerNames, stem.substr(part + 1));
  } else {
    name = ours(kModelNames, stem);
  }
  if (name.empty()) return published;
  return prefix + std::string(name) + published.substr(dot);
}

/// Files leave out leading dimensions of 1.
bool same_shape(std::span<const size_t> found, std::span<const size_t> expected) {
  while (expected.size() > found.size() && expected.front() == 1) expected = expected.subspan(1);
  return std::ranges::equal(found, expected);
}

/// A copy of `tensor` whose row r is in the place `place(r)`.
template <typename Place>
WeightTensor with_rows_moved(const TensorView& tensor, const Place& place) {
  const size_t rows = tensor.shape[0], row_bytes = tensor.data.size() / rows;
  const auto bytes = std::make_shared<std::vector<std::byte>>(tensor.data.size());
  for (size_t row = 0; row < rows; ++row) {
    std::memcpy(bytes->data() + place(row) * row_bytes, tensor.data.data() + row * row_bytes,
                row_bytes);
  }
  WeightTensor owned{tensor, bytes};
  owned.view.data = *bytes;
  return owned;
}

/// Of each head of d rows, those of pairs (2i, 2i + 1) go to i and i + d/2: as Hugging Face has
/// them. Rows are whole blocks, so their bytes move as they are.
WeightTensor with_heads_in_halves(const TensorView& tensor, size_t heads) {
  const size_t half = tensor.shape[0] / heads / 2;
  return with_rows_moved(tensor, [&](size_t row) {
    const size_t within = row % (2 * half);
    return row - within + within % 2 * half + within / 2;
  });
}

}  // namespace

GgufWeights GgufWeights::open(const std::filesystem::path& path) {
  return GgufWeights(GgufFile::open(path));
}

GgufWeights::GgufWeights(GgufFile file) : file_(std::move(file)) {
  const auto add = [&](const std::string& published) {
    if (published == kRopeDivisors) return;
    const auto [entry, is_new] = published_.emplace(hugging_face_name(published), published);
    if (!is_new) {
      throw std::runtime_error(file_.path().string() + ": " + published +
                               ": is there twice, also as " + entry->second);
    }
  };
  for (const auto& [name, tensor] : file_.tensors()) add(name);
  for (const auto& [name, type] : file_.other_types()) add(name);

  relevant_label_is_first_ = relevant_label_is_first(file_);
  const engine::GgufMetadata& metadata = file_.metadata();
  interleaved_ = metadata.text("general.architecture") == "llama";
  if (interleaved_) {
    query_heads_ = metadata.unsigned_integer("llama.attention.head_count").value_or(0);
    kv_heads_ = metadata.unsigned_integer("llama.attention.head_count_kv").value_or(query_heads_);
  }
}

const TensorView* GgufWeights::find(const std::string& name) const {
  const auto tensor = file_.tensors().find(published_.at(name));
  return tensor == file_.tensors().end() ? nullptr : &tensor->second;
}

const TensorView& GgufWeights::view(const ExpectedTensor& expected) const {
  if (!contains(expected.name)) {
    throw std::runtime_error(file_.path().string() + ": has no tensor that is " + expected.name);
  }
  const TensorView* const tensor = find(expected.name);
  if (tensor == nullptr) {
    throw std::runtime_error(
        describe(expected.name) + ": is stored as " +
        file_.other_types().at(published_.at(expected.name)) +
        ", which is not supported; take a file of F32, F16, BF16, Q8_0, Q6_K, Q5_K_M, Q4_K_M or "
        "another without i-quants");
  }
  if (!same_shape(tensor->shape, expected.shape)) {
    throw std::runtime_error(describe(expected.name) + ": expected shape " +
                             engine::shape_text(expected.shape) + ", found " +
                             engine::shape_text(tensor->shape));
  }
  return *tensor;
}

/// The heads whose rows are in the order of `llama` files; 0 where they are not.
size_t GgufWeights::interleaved_heads(const std::string& name) const {
  if (!interleaved_) return 0;
  if (name.find(".self_attn.q_proj.") != std::string::npos) return query_heads_;
  if (name.find(".self_attn.k_proj.") != std::string::npos) return kv_heads_;
  return 0;
}

WeightTensor GgufWeights::tensor(const ExpectedTensor& expected) const {
  const TensorView& tensor = view(expected);
  if (tensor.data.empty()) return {tensor, nullptr};
  if (relevant_label_is_first_ && expected.name.starts_with("score.") && tensor.shape[0] == 2) {
    return with_rows_moved(tensor, [](size_t row) { return 1 - row; });
  }
  const size_t heads = interleaved_heads(expected.name);
  if (heads == 0) {
    WeightTensor mapped{tensor, nullptr};
    mapped.view.shape = expected.shape;  // files leave out dimensions of 1
    return mapped;
  }
  if (tensor.shape[0] % (2 * heads) != 0) {
    throw std::runtime_error(describe(expected.name) + ": has " + std::to_string(tensor.shape[0]) +
                             " rows for " + std::to_string(heads) + " heads");
  }
  return with_heads_in_halves(tensor, heads);
}

std::vector<std::string> GgufWeights::names() const {
  std::vector<std::string> names;
  names.reserve(published_.size());
  for (const auto& [name, published] : published_) names.push_back(name);
  return names;
}

std::string GgufWeights::describe(const std::string& name) const {
  return file_.path().string() + ": " + published_.at(name);
}

size_t GgufWeights::stored_bytes(const std::string& name) const {
  const TensorView* const tensor = find(name);
  return tensor == nullptr ? 0 : tensor->data.size();
}

void GgufWeights::release_pages(const std::string& name) const {
  const TensorView* const tensor = find(name);
  if (tensor != nullptr) file_.release_pages(*tensor);
}

}  // namespace espalier::models
