#include "server/api/tei_json.h"

#include <array>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <utility>

#include "server/api/embedding_encoding.h"
#include "server/api/input_options_json.h"
#include "server/api/json_request.h"
#include "server/api/text_inputs_json.h"

namespace espalier::server {
namespace {

using nlohmann::json;

constexpr auto kEmbedMembers = with_input_options(
    std::array<std::string_view, 4>{"inputs", "normalize", "dimensions", "model"});
constexpr auto kSimilarityMembers = with_input_options(std::array<std::string_view, 5>{
    "inputs", "source_sentence", "sentences", "parameters", "model"});

/// Of a member of `inputs`: what it is called from outside.
ApiError nested(ApiError error) {
  error.param = "inputs." + error.param;
  return error;
}

}  // namespace

Result<EmbeddingRequest> parse_tei_embed(std::string_view body) {
  const auto object = parse_json_object(body, kEmbedMembers);
  if (!object) return tl::unexpected(object.error());
  auto model = optional_string(*object, "model");
  if (!model) return tl::unexpected(std::move(model.error()));
  const auto normalize = optional_bool(*object, "normalize");
  if (!normalize) return tl::unexpected(normalize.error());
  const auto dimensions = optional_whole_number(*object, "dimensions", 1);
  if (!dimensions) return tl::unexpected(dimensions.error());
  auto options = parse_input_options(*object);
  if (!options) return tl::unexpected(std::move(options.error()));
  auto inputs = parse_inputs(*object, "inputs");
  if (!inputs) return tl::unexpected(std::move(inputs.error()));

  EmbeddingRequest request;
  request.inputs = std::move(inputs->inputs);
  request.field = "inputs";
  request.single = inputs->single;
  request.model = model->value_or("");
  request.options = std::move(*options);
  request.normalize = normalize->value_or(true);
  if (*dimensions) request.dimensions = static_cast<size_t>(**dimensions);
  return request;
}

Result<std::string> render_tei_embeddings(const EmbeddingAnswer& answer) {
  std::string out = "[";
  for (size_t i = 0; i < answer.embeddings.size(); ++i) {
    if (i > 0) out += ',';
    if (!append_embedding(answer.embeddings[i], EmbeddingEncoding::kFloat, out))
      return tl::unexpected(not_finite(i));
  }
  return out + "]";
}

Result<std::string> render_token_embeddings(const TokenEmbeddingAnswer& answer) {
  std::string out = "[";
  for (size_t i = 0; i < answer.hidden_states.size(); ++i) {
    if (i > 0) out += ',';
    const std::span<const float> states(answer.hidden_states[i]);
    char separator = '[';
    for (size_t begin = 0; begin < states.size(); begin += answer.hidden_size) {
      out += separator;
      if (!append_embedding(states.subspan(begin, answer.hidden_size), EmbeddingEncoding::kFloat,
                            out)) {
        return tl::unexpected(not_finite(i));
      }
      separator = ',';
    }
    out += ']';
  }
  return out + "]";
}

Result<EmbeddingRequest> parse_similarity(std::string_view body) {
  const auto object = parse_json_object(body, kSimilarityMembers);
  if (!object) return tl::unexpected(object.error());
  const auto inputs = object->find("inputs");
  if (inputs == object->end() || !inputs->is_object()) {
    return tl::unexpected(invalid_param(
        "inputs", "`inputs` must be an object with `source_sentence` and `sentences`"));
  }
  const json parameters = object->value("parameters", json());
  if (!parameters.is_null() && !parameters.is_object()) {
    return tl::unexpected(
        invalid_param("parameters", "`parameters` must be an object, not " + describe(parameters)));
  }
  auto options = parse_input_options(parameters.is_null() ? *object : parameters);
  if (!options) return tl::unexpected(std::move(options.error()));
  auto source = parse_text(*inputs, "source_sentence");
  if (!source) return tl::unexpected(nested(std::move(source.error())));
  auto sentences = parse_texts(*inputs, "sentences");
  if (!sentences) return tl::unexpected(nested(std::move(sentences.error())));

  EmbeddingRequest request;
  request.first_field = "inputs.source_sentence";
  request.field = "inputs.sentences";
  request.options = std::move(*options);
  request.normalize = true;
  request.inputs.emplace_back(std::move(*source));
  for (auto& sentence : sentences->texts) request.inputs.emplace_back(std::move(sentence));
  return request;
}

Result<std::string> render_similarities(const EmbeddingAnswer& answer) {
  std::vector<float> similarities;
  const auto& source = answer.embeddings.front();
  for (size_t i = 1; i < answer.embeddings.size(); ++i) {
    const auto& other = answer.embeddings[i];
    similarities.push_back(
        static_cast<float>(std::inner_product(source.begin(), source.end(), other.begin(), 0.0)));
  }
  std::string out;
  if (!append_embedding(similarities, EmbeddingEncoding::kFloat, out))
    return tl::unexpected(not_finite(0));
  return out;
}

}  // namespace espalier::server
