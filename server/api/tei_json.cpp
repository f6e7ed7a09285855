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
#include "server/api/unserved_fields.h"
#include "server/api/vector_options_json.h"

namespace espalier::server {
namespace {

using nlohmann::json;

constexpr auto kEmbedMembers = joined_members(
    std::array<std::string_view, 4>{"inputs", "parameters", "encoding_format", "model"},
    kInputOptionMembers, kVectorOptionMembers, kUnservedMembers);
constexpr auto kSimilarityMembers =
    joined_members(std::array<std::string_view, 6>{"inputs", "source_sentence", "sentences", "text",
                                                   "parameters", "model"},
                   kInputOptionMembers, kVectorOptionMembers, kUnservedMembers);

/// Of a member of `inputs`: what it is called from outside.
ApiError nested(ApiError error) {
  error.param = "inputs." + error.param;
  return error;
}

/// The body, with the members of `parameters`, where Hugging Face's clients put some, beside the
/// others.
Result<json> parse_object(std::string_view body, std::span<const std::string_view> members) {
  auto object = parse_json_object(body, members);
  if (!object) return object;
  // Not copied: they may be all of a large body.
  json parameters;
  if (const auto found = object->find("parameters"); found != object->end())
    parameters = std::exchange(*found, json());
  if (!parameters.is_null() && !parameters.is_object()) {
    return tl::unexpected(
        invalid_param("parameters", "`parameters` must be an object, not " + describe(parameters)));
  }
  for (auto& [name, value] : parameters.items()) {
    if (value.is_null() || name == "inputs" || name == "parameters") continue;
    if (has_value(*object, name.c_str()) && (*object)[name] != value) {
      return tl::unexpected(invalid_param(
          "parameters." + name,
          "`parameters." + name + "` and `" + name + "` say different things; send one of them"));
    }
    (*object)[name] = std::move(value);
  }
  if (auto refused = refuse_unserved(*object)) return tl::unexpected(std::move(*refused));
  return object;
}

/// Hugging Face's clients may ask for base64 here; these routes answer with arrays of numbers.
std::optional<ApiError> refuse_encoding(const json& object) {
  const auto encoding = optional_string(object, "encoding_format");
  if (!encoding) return encoding.error();
  if (encoding->value_or("float") == "float") return std::nullopt;
  return invalid_param("encoding_format",
                       "`encoding_format` must be \"float\" here; /v1/embeddings has the others");
}

}  // namespace

Result<EmbeddingRequest> parse_tei_embed(std::string_view body, TeiVectors vectors) {
  const auto object = parse_object(body, kEmbedMembers);
  if (!object) return tl::unexpected(object.error());
  if (auto refused = refuse_encoding(*object)) return tl::unexpected(std::move(*refused));
  auto model = optional_string(*object, "model");
  if (!model) return tl::unexpected(std::move(model.error()));
  const auto vector = parse_vector_options(*object);
  if (!vector) return tl::unexpected(vector.error());
  if (vectors == TeiVectors::kTokens && (vector->dimensions || vector->normalize.value_or(false))) {
    return tl::unexpected(invalid_param(
        vector->dimensions ? "dimensions" : "normalize",
        "tokens' vectors are neither cut nor normalised; /embed does that with inputs'"));
  }
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
  request.normalize = vector->normalize.value_or(true);
  request.dimensions = vector->dimensions;
  request.dimensions_field = vector->dimensions_field;
  return request;
}

Result<std::string> render_tei_embeddings(const EmbeddingAnswer& answer) {
  std::string out;
  if (auto error = append_embedding_list(answer.embeddings, EmbeddingEncoding::kFloat, out))
    return tl::unexpected(std::move(*error));
  return out;
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
  out += ']';
  return out;
}

Result<EmbeddingRequest> parse_similarity(std::string_view body) {
  const auto object = parse_object(body, kSimilarityMembers);
  if (!object) return tl::unexpected(object.error());
  const auto inputs = object->find("inputs");
  if (inputs == object->end() || !inputs->is_object()) {
    return tl::unexpected(invalid_param(
        "inputs", "`inputs` must be an object with `source_sentence` and `sentences`"));
  }
  const auto model = optional_string(*object, "model");
  if (!model) return tl::unexpected(model.error());
  const auto vector = parse_vector_options(*object);
  if (!vector) return tl::unexpected(vector.error());
  auto options = parse_input_options(*object);
  if (!options) return tl::unexpected(std::move(options.error()));
  auto source = parse_text(*inputs, "source_sentence");
  if (!source) return tl::unexpected(nested(std::move(source.error())));
  auto sentences = parse_texts(*inputs, "sentences");
  if (!sentences) return tl::unexpected(nested(std::move(sentences.error())));

  EmbeddingRequest request;
  request.first_field = "inputs.source_sentence";
  request.field = "inputs.sentences";
  request.model = model->value_or("");
  request.options = std::move(*options);
  request.dimensions = vector->dimensions;
  request.dimensions_field = vector->dimensions_field;
  request.normalize = true;  // whatever was asked for: a cosine is the same
  request.inputs.emplace_back(std::move(*source));
  for (auto& sentence : sentences->texts) request.inputs.emplace_back(std::move(sentence));
  for (size_t i = 0; i < request.inputs.size(); ++i)
    if (std::get<std::string>(request.inputs[i]).empty())
      return tl::unexpected(empty_input(request.input_name(i), "is an empty string"));
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
