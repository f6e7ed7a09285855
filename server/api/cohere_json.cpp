#include "server/api/cohere_json.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/api/input_options_json.h"
#include "server/api/json_request.h"
#include "server/api/text_inputs_json.h"
#include "server/api/unserved_fields.h"
#include "server/api/vector_options_json.h"

namespace espalier::server {
namespace {

using nlohmann::json;

constexpr auto kMembers =
    joined_members(std::array<std::string_view, 8>{"texts", "inputs", "content", "type", "text",
                                                   "model", "embedding_types", "max_tokens"},
                   kInputOptionMembers, kVectorOptionMembers, kUnservedMembers);

/// The text of v2's {"content": [{"type": "text", "text": …}, …]}: its parts, one a line.
Result<std::string> text_of_content(const json& input, const std::string& name) {
  const auto wrong = [](const std::string& param) {
    return tl::unexpected(invalid_param(
        param,
        "`" + param + "` must be text, as in {\"content\": [{\"type\": \"text\", \"text\": …}]}"));
  };
  const auto content = input.is_object() ? input.find("content") : input.end();
  if (!input.is_object() || content == input.end() || !content->is_array() || content->empty())
    return wrong(name + ".content");
  std::string text;
  for (size_t i = 0; i < content->size(); ++i) {
    const json& part = (*content)[i];
    if (!part.is_object() || part.value("type", json("text")) != json("text") ||
        !part.contains("text") || !part["text"].is_string()) {
      return wrong(name + ".content[" + std::to_string(i) + "]");
    }
    if (i > 0) text += '\n';
    text += part["text"].get<std::string>();
  }
  if (text.empty()) return tl::unexpected(empty_input(name + ".content", "holds no text"));
  return text;
}

/// v2's `inputs`.
Result<std::vector<EmbeddingInput>> parse_contents(const json& list) {
  if (!list.is_array() || list.empty()) {
    return tl::unexpected(invalid_param(
        "inputs", "`inputs` must be an array of {\"content\": […]}, not " + describe(list)));
  }
  std::vector<EmbeddingInput> inputs;
  for (const json& input : list) {
    auto text = text_of_content(input, "inputs[" + std::to_string(inputs.size()) + "]");
    if (!text) return tl::unexpected(std::move(text.error()));
    inputs.emplace_back(std::move(*text));
  }
  return inputs;
}

Result<std::vector<EmbeddingEncoding>> parse_encodings(const json& object) {
  std::vector<EmbeddingEncoding> encodings;
  const auto found = object.find("embedding_types");
  if (found == object.end() || found->is_null()) return encodings;
  if (!found->is_array() || found->empty()) {
    return tl::unexpected(invalid_param(
        "embedding_types", "`embedding_types` must be an array of names, not " + describe(*found)));
  }
  for (const json& name : *found) {
    const auto encoding =
        name.is_string() ? embedding_encoding(name.get_ref<const std::string&>()) : std::nullopt;
    if (!encoding) return tl::unexpected(unknown_encoding("embedding_types"));
    if (std::ranges::find(encodings, *encoding) == encodings.end()) encodings.push_back(*encoding);
  }
  return encodings;
}

/// `texts`, or in v2 `inputs`.
std::optional<ApiError> read_inputs(const json& object, CohereVersion version,
                                    EmbeddingRequest& request) {
  const bool contents = version == CohereVersion::kV2 && has_value(object, "inputs");
  if (contents && has_value(object, "texts"))
    return invalid_param("inputs", "send `texts` or `inputs`, not both");
  request.field = contents ? "inputs" : "texts";
  if (contents) {
    auto inputs = parse_contents(object["inputs"]);
    if (!inputs) return std::move(inputs.error());
    request.inputs = std::move(*inputs);
    return std::nullopt;
  }
  auto texts = parse_inputs(object, "texts");
  if (!texts) return std::move(texts.error());
  request.inputs = std::move(texts->inputs);
  request.single = texts->single;
  return std::nullopt;
}

/// What was embedded, as text; token ids are none.
void append_texts(const EmbeddingRequest& request, std::string& out) {
  out += '[';
  bool first = true;
  for (const auto& input : request.inputs) {
    const auto* const text = std::get_if<std::string>(&input);
    if (text == nullptr) continue;
    if (!std::exchange(first, false)) out += ',';
    append_json_string(*text, out);
  }
  out += ']';
}

}  // namespace

Result<CohereEmbedBody> parse_cohere_embed(std::string_view body, CohereVersion version) {
  const auto object = parse_json_object(body, kMembers);
  if (!object) return tl::unexpected(object.error());
  if (auto refused = refuse_unserved(*object)) return tl::unexpected(std::move(*refused));
  CohereEmbedBody parsed;
  EmbeddingRequest& request = parsed.request;
  auto model = optional_string(*object, "model");
  if (!model) return tl::unexpected(std::move(model.error()));
  auto encodings = parse_encodings(*object);
  if (!encodings) return tl::unexpected(std::move(encodings.error()));
  const auto vector = parse_vector_options(*object);
  if (!vector) return tl::unexpected(vector.error());
  const auto max_tokens = optional_whole_number(*object, "max_tokens", 1);
  if (!max_tokens) return tl::unexpected(max_tokens.error());
  auto options = parse_input_options(*object);
  if (!options) return tl::unexpected(std::move(options.error()));
  if (auto error = read_inputs(*object, version, request)) return tl::unexpected(std::move(*error));

  parsed.encodings = std::move(*encodings);
  if (parsed.encodings.empty() && version == CohereVersion::kV2)
    parsed.encodings.push_back(EmbeddingEncoding::kFloat);
  if (!parsed.encodings.empty()) {
    request.text_bytes_per_value = 0;
    for (const auto encoding : parsed.encodings)
      request.text_bytes_per_value += text_bytes_per_value(encoding);
  }
  request.returns_texts = true;
  request.model = model->value_or("");
  request.options = std::move(*options);
  if (*max_tokens) {
    request.options.tokens_max = static_cast<size_t>(**max_tokens);
    request.options.tokens_max_field = "max_tokens";
  }
  request.dimensions = vector->dimensions;
  request.dimensions_field = vector->dimensions_field;
  request.normalize = vector->normalize;
  return parsed;
}

Result<std::string> render_cohere_embed(const EmbeddingAnswer& answer, const CohereEmbedBody& body,
                                        CohereVersion version, std::string_view id,
                                        size_t input_tokens) {
  std::string out = R"({"id":)";
  append_json_string(id, out);
  out += R"(,"embeddings":)";
  if (body.encodings.empty()) {
    if (auto error = append_embedding_list(answer.embeddings, EmbeddingEncoding::kFloat, out))
      return tl::unexpected(std::move(*error));
  } else {
    char separator = '{';
    for (const auto encoding : body.encodings) {
      out += separator;
      append_json_string(name_of(encoding), out);
      out += ':';
      if (auto error = append_embedding_list(answer.embeddings, encoding, out))
        return tl::unexpected(std::move(*error));
      separator = ',';
    }
    out += '}';
  }
  out += R"(,"texts":)";
  append_texts(body.request, out);
  out += body.encodings.empty() ? R"(,"response_type":"embeddings_floats")"
                                : R"(,"response_type":"embeddings_by_type")";
  const std::string number = version == CohereVersion::kV1 ? "1" : "2";
  out += R"(,"meta":{"api_version":{"version":")" + number +
         R"("},"billed_units":{"input_tokens":)" + std::to_string(input_tokens) + "}}}";
  return out;
}

}  // namespace espalier::server
