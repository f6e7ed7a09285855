#include "server/api/embeddings_json.h"

#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/api/base64.h"
#include "server/api/json_request.h"

namespace espalier::server {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 7> kMembers{
    "input", "model", "encoding_format", "dimensions", "prompt_name", "instruction", "truncate"};

constexpr const char* kInputForms =
    "`input` must be a string, an array of strings, an array of token ids or an array of such "
    "arrays";

std::string entry_name(const std::string& list, size_t index) {
  return list + "[" + std::to_string(index) + "]";
}

Result<TokenIds> parse_token_ids(const json& list, const std::string& name) {
  TokenIds ids;
  ids.reserve(list.size());
  for (const json& entry : list) {
    const auto id = whole_number(entry, std::numeric_limits<uint32_t>::max());
    if (!id) {
      auto param = entry_name(name, ids.size());
      auto message =
          "`" + param + "` must be a token id, a whole number from 0, not " + describe(entry);
      return tl::unexpected(invalid_param(std::move(param), std::move(message)));
    }
    ids.push_back(static_cast<uint32_t>(*id));
  }
  return ids;
}

/// One entry of an array of texts or of token lists; all are what the first one is.
Result<EmbeddingInput> parse_entry(const json& entry, const std::string& name, bool texts) {
  const bool right_type = texts ? entry.is_string() : entry.is_array();
  if (!right_type) {
    return tl::unexpected(invalid_param(
        name, "`" + name + "` must be " +
                  (texts ? "a string like the entries before it" : "an array of token ids") +
                  ", not " + describe(entry)));
  }
  if (texts) {
    const auto& text = entry.get_ref<const std::string&>();
    if (text.empty()) {
      return tl::unexpected(
          invalid_param(name, "`" + name + "` is an empty string; every input needs some text"));
    }
    return EmbeddingInput(text);
  }
  if (entry.empty()) {
    return tl::unexpected(
        invalid_param(name, "`" + name + "` is empty; every input needs at least one token id"));
  }
  auto ids = parse_token_ids(entry, name);
  if (!ids) return tl::unexpected(std::move(ids.error()));
  return EmbeddingInput(std::move(*ids));
}

Result<std::vector<EmbeddingInput>> parse_entries(const json& list) {
  if (list.size() > kEmbeddingInputsMax) {
    return tl::unexpected(invalid_param(
        "input", "`input` has " + std::to_string(list.size()) + " entries; at most " +
                     std::to_string(kEmbeddingInputsMax) + " are allowed in one request"));
  }
  const bool texts = list.front().is_string();
  std::vector<EmbeddingInput> inputs;
  inputs.reserve(list.size());
  for (const json& entry : list) {
    auto input = parse_entry(entry, entry_name("input", inputs.size()), texts);
    if (!input) return tl::unexpected(std::move(input.error()));
    inputs.push_back(std::move(*input));
  }
  return inputs;
}

Result<void> parse_input(const json& object, EmbeddingRequest& request) {
  const auto found = object.find("input");
  if (found == object.end()) {
    return tl::unexpected(
        invalid_param("input", "`input` is missing; it must be a string or an array of strings"));
  }
  const json& input = *found;
  if (input.is_string()) {
    if (input.get_ref<const std::string&>().empty())
      return tl::unexpected(invalid_param("input", "`input` is an empty string"));
    request.inputs.emplace_back(input.get<std::string>());
    request.single = true;
    return {};
  }
  if (!input.is_array())
    return tl::unexpected(invalid_param("input", kInputForms + (", not " + describe(input))));
  if (input.empty()) return tl::unexpected(invalid_param("input", "`input` is an empty array"));
  const json& first = input.front();
  if (first.is_number()) {
    auto ids = parse_token_ids(input, "input");
    if (!ids) return tl::unexpected(std::move(ids.error()));
    request.inputs.emplace_back(std::move(*ids));
    request.single = true;
    return {};
  }
  if (!first.is_string() && !first.is_array()) {
    return tl::unexpected(
        invalid_param("input[0]", kInputForms + ("; `input[0]` is " + describe(first))));
  }
  auto inputs = parse_entries(input);
  if (!inputs) return tl::unexpected(std::move(inputs.error()));
  request.inputs = std::move(*inputs);
  return {};
}

Result<EmbeddingEncoding> parse_encoding(const json& object) {
  auto name = optional_string(object, "encoding_format");
  if (!name) return tl::unexpected(std::move(name.error()));
  if (!*name || **name == "float") return EmbeddingEncoding::kFloat;
  if (**name == "base64") return EmbeddingEncoding::kBase64;
  return tl::unexpected(
      invalid_param("encoding_format", "`encoding_format` must be \"float\" or \"base64\""));
}

Result<void> parse_options(const json& object, EmbeddingRequest& request) {
  auto model = optional_string(object, "model");
  if (!model) return tl::unexpected(std::move(model.error()));
  auto encoding = parse_encoding(object);
  if (!encoding) return tl::unexpected(std::move(encoding.error()));
  auto dimensions = optional_whole_number(object, "dimensions", 1);
  if (!dimensions) return tl::unexpected(std::move(dimensions.error()));
  auto prompt_name = optional_string(object, "prompt_name");
  if (!prompt_name) return tl::unexpected(std::move(prompt_name.error()));
  auto instruction = optional_string(object, "instruction");
  if (!instruction) return tl::unexpected(std::move(instruction.error()));
  auto truncate = optional_bool(object, "truncate");
  if (!truncate) return tl::unexpected(std::move(truncate.error()));

  request.model = model->value_or("");
  request.encoding = *encoding;
  if (*dimensions) request.dimensions = static_cast<size_t>(**dimensions);
  request.prompt_name = std::move(*prompt_name);
  request.instruction = std::move(*instruction);
  request.truncate = truncate->value_or(true);
  if (request.prompt_name && request.instruction) {
    return tl::unexpected(
        invalid_param("instruction",
                      "`prompt_name` and `instruction` both say what comes before the input; "
                      "send one of them"));
  }
  return {};
}

bool append_embedding(std::span<const float> embedding, EmbeddingEncoding encoding,
                      std::string& out) {
  if (encoding == EmbeddingEncoding::kBase64) {
    for (const float value : embedding)
      if (!std::isfinite(value)) return false;
    out += '"';
    append_base64(embedding, out);
    out += '"';
    return true;
  }
  char separator = '[';
  for (const float value : embedding) {
    out += separator;
    if (!append_json_float(value, out)) return false;
    separator = ',';
  }
  out += ']';
  return true;
}

}  // namespace

Result<EmbeddingRequest> parse_embedding_request(std::string_view body) {
  auto object = parse_json_object(body, kMembers);
  if (!object) return tl::unexpected(std::move(object.error()));
  EmbeddingRequest request;
  if (auto parsed = parse_options(*object, request); !parsed)
    return tl::unexpected(std::move(parsed.error()));
  if (auto parsed = parse_input(*object, request); !parsed)
    return tl::unexpected(std::move(parsed.error()));
  return request;
}

Result<std::string> render_embedding_answer(const EmbeddingAnswer& answer,
                                            EmbeddingEncoding encoding, std::string_view model) {
  std::string out = R"({"object":"list","data":[)";
  for (size_t i = 0; i < answer.embeddings.size(); ++i) {
    if (i > 0) out += ',';
    out += R"({"object":"embedding","index":)" + std::to_string(i) + R"(,"embedding":)";
    if (!append_embedding(answer.embeddings[i], encoding, out)) {
      ApiError error;
      error.message =
          "the model gave a value that is not a finite number for input " + std::to_string(i);
      return tl::unexpected(std::move(error));
    }
    out += '}';
  }
  out += R"(],"model":)";
  append_json_string(model, out);
  const auto tokens = std::to_string(answer.prompt_tokens);
  out += R"(,"usage":{"prompt_tokens":)" + tokens + R"(,"total_tokens":)" + tokens + "}}";
  return out;
}

}  // namespace espalier::server
