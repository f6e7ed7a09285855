#include "server/api/embeddings_json.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/api/input_options_json.h"
#include "server/api/json_request.h"
#include "server/api/text_inputs_json.h"
#include "server/api/trie_json.h"
#include "server/api/unserved_fields.h"
#include "server/api/vector_options_json.h"

namespace espalier::server {
namespace {

using nlohmann::json;

constexpr auto kMembers =
    joined_members(std::array<std::string_view, 10>{"input", "text", "image", "content", "model",
                                                    "encoding_format", "embedding_type",
                                                    "encoding_type", "output_dtype", "return_trie"},
                   kInputOptionMembers, kVectorOptionMembers, kUnservedMembers);

/// `encoding_format`, or what Jina, LlamaIndex's class for Jina, and Voyage call it.
Result<EmbeddingEncoding> parse_encoding(const json& object) {
  std::optional<EmbeddingEncoding> encoding;
  std::string named_by;
  for (const char* const field :
       {"encoding_format", "embedding_type", "encoding_type", "output_dtype"}) {
    auto name = optional_string(object, field);
    if (!name) return tl::unexpected(std::move(name.error()));
    if (!*name || **name == "not_set") continue;  // that is Dify's word for nothing
    const auto known = embedding_encoding(**name);
    if (!known) return tl::unexpected(unknown_encoding(field));
    // Voyage's clients send both: what base64 writes are floats.
    if (encoding == EmbeddingEncoding::kBase64 && *known == EmbeddingEncoding::kFloat &&
        field == std::string_view("output_dtype")) {
      continue;
    }
    if (encoding && *encoding != *known) {
      return tl::unexpected(invalid_param(
          field, "`" + std::string(field) + "` and `" + named_by + "` name different encodings"));
    }
    named_by = field;
    encoding = known;
  }
  return encoding.value_or(EmbeddingEncoding::kFloat);
}

/// llama.cpp's clients may call it `content`.
const char* inputs_field(const json& object) {
  return !has_value(object, "input") && has_value(object, "content") ? "content" : "input";
}

/// Jina's clients send {"text": …} for each text. Other objects, and those with a picture, are
/// left, to be refused.
void unwrap_texts(json& object, const char* field) {
  const auto inputs = object.find(field);
  if (inputs == object.end() || !inputs->is_array()) return;
  for (json& input : *inputs) {
    if (!input.is_object() || has_value(input, "image")) continue;
    const auto text = input.find("text");
    if (text == input.end() || !text->is_string()) continue;
    auto unwrapped = text->get<std::string>();
    input = std::move(unwrapped);
  }
}

}  // namespace

Result<EmbeddingsBody> parse_embeddings_body(std::string_view body) {
  auto object = parse_json_object(body, kMembers);
  if (!object) return tl::unexpected(std::move(object.error()));
  if (auto refused = refuse_unserved(*object)) return tl::unexpected(std::move(*refused));
  auto model = optional_string(*object, "model");
  if (!model) return tl::unexpected(std::move(model.error()));
  auto encoding = parse_encoding(*object);
  if (!encoding) return tl::unexpected(std::move(encoding.error()));
  const auto vector = parse_vector_options(*object);
  if (!vector) return tl::unexpected(vector.error());
  auto wants_trie = optional_bool(*object, "return_trie");
  if (!wants_trie) return tl::unexpected(std::move(wants_trie.error()));
  auto options = parse_input_options(*object);
  if (!options) return tl::unexpected(std::move(options.error()));
  const char* const field = inputs_field(*object);
  unwrap_texts(*object, field);
  auto inputs = parse_inputs(*object, field);
  if (!inputs) return tl::unexpected(std::move(inputs.error()));

  EmbeddingsBody parsed;
  parsed.encoding = *encoding;
  EmbeddingRequest& request = parsed.request;
  request.inputs = std::move(inputs->inputs);
  request.field = field;
  request.single = inputs->single;
  request.model = model->value_or("");
  request.options = std::move(*options);
  request.dimensions = vector->dimensions;
  request.dimensions_field = vector->dimensions_field;
  request.normalize = vector->normalize;
  request.wants_trie = wants_trie->value_or(false);
  request.text_bytes_per_value = text_bytes_per_value(*encoding);
  return parsed;
}

Result<std::string> render_embeddings(const EmbeddingAnswer& answer, EmbeddingEncoding encoding,
                                      std::string_view model, size_t prompt_tokens) {
  std::string out = R"({"object":"list","data":[)";
  for (size_t i = 0; i < answer.embeddings.size(); ++i) {
    if (i > 0) out += ',';
    out += R"({"object":"embedding","index":)" + std::to_string(i) + R"(,"embedding":)";
    if (!append_embedding(answer.embeddings[i], encoding, out))
      return tl::unexpected(not_finite(i));
    out += '}';
  }
  out += R"(],"model":)";
  append_json_string(model, out);
  const auto tokens = std::to_string(prompt_tokens);
  out += R"(,"usage":{"prompt_tokens":)" + tokens + R"(,"total_tokens":)" + tokens + "}";
  append_trie_member(answer.trie, out);
  out += '}';
  return out;
}

}  // namespace espalier::server
