#include "server/api/text_inputs_json.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/api/json_request.h"

namespace espalier::server {
namespace {

using nlohmann::json;

constexpr const char* kInputForms =
    " must be a string, an array of strings, an array of token ids or an array of such arrays";

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
      return tl::unexpected(empty_input(name, "is an empty string; every input needs some text"));
    }
    return EmbeddingInput(text);
  }
  if (entry.empty()) {
    return tl::unexpected(empty_input(name, "is empty; every input needs at least one token id"));
  }
  auto ids = parse_token_ids(entry, name);
  if (!ids) return tl::unexpected(std::move(ids.error()));
  return EmbeddingInput(std::move(*ids));
}

Result<std::vector<EmbeddingInput>> parse_entries(const json& list, const std::string& field) {
  const bool texts = list.front().is_string();
  std::vector<EmbeddingInput> inputs;
  inputs.reserve(list.size());
  for (const json& entry : list) {
    auto input = parse_entry(entry, entry_name(field, inputs.size()), texts);
    if (!input) return tl::unexpected(std::move(input.error()));
    inputs.push_back(std::move(*input));
  }
  return inputs;
}

/// The member `field`; an error that it is missing, and must be what `expected` says.
Result<const json*> required(const json& object, const std::string& field,
                             const std::string& expected) {
  const auto found = object.find(field);
  if (found != object.end()) return &*found;
  return tl::unexpected(invalid_param(field, "`" + field + "` is missing; it must be " + expected));
}

Result<std::string> text_of(const json& entry, const std::string& name) {
  if (entry.is_string()) return entry.get<std::string>();
  auto param = name;
  if (entry.is_object()) {
    const auto text = entry.find("text");
    if (text != entry.end() && text->is_string()) return text->get<std::string>();
    param += ".text";
    auto message =
        "`" + param + "` must be a string" +
        (text == entry.end() ? std::string(", it is missing") : ", not " + describe(*text));
    return tl::unexpected(invalid_param(std::move(param), std::move(message)));
  }
  auto message =
      "`" + param + "` must be a string or an object with a `text`, not " + describe(entry);
  return tl::unexpected(invalid_param(std::move(param), std::move(message)));
}

}  // namespace

ApiError empty_input(std::string param, const std::string& message) {
  ApiError error = invalid_param(param, "`" + param + "` " + message);
  error.code = "empty_input";
  return error;
}

Result<ParsedInputs> parse_inputs(const json& object, const std::string& field) {
  const auto member = required(object, field, "a string or an array of strings");
  if (!member) return tl::unexpected(member.error());
  const json& input = **member;
  if (input.is_string()) {
    if (input.get_ref<const std::string&>().empty())
      return tl::unexpected(empty_input(field, "is an empty string"));
    return ParsedInputs{{input.get<std::string>()}, true};
  }
  if (!input.is_array()) {
    return tl::unexpected(
        invalid_param(field, "`" + field + "`" + kInputForms + ", not " + describe(input)));
  }
  if (input.empty()) return tl::unexpected(empty_input(field, "is an empty array"));
  const json& first = input.front();
  if (first.is_number()) {
    auto ids = parse_token_ids(input, field);
    if (!ids) return tl::unexpected(std::move(ids.error()));
    return ParsedInputs{{std::move(*ids)}, true};
  }
  if (!first.is_string() && !first.is_array()) {
    const auto name = entry_name(field, 0);
    return tl::unexpected(invalid_param(
        name, "`" + field + "`" + kInputForms + "; `" + name + "` is " + describe(first)));
  }
  auto inputs = parse_entries(input, field);
  if (!inputs) return tl::unexpected(std::move(inputs.error()));
  return ParsedInputs{std::move(*inputs), false};
}

Result<std::string> parse_text(const json& object, const std::string& field) {
  auto text = optional_string(object, field.c_str());
  if (!text) return tl::unexpected(std::move(text.error()));
  if (!*text) {
    return tl::unexpected(invalid_param(field, "`" + field + "` is missing; it must be a string"));
  }
  return std::move(**text);
}

Result<ParsedTexts> parse_texts(const json& object, const std::string& field, bool or_one) {
  const std::string expected =
      std::string(or_one ? "a string, or " : "") + "an array of strings or of {\"text\": …}";
  const auto member = required(object, field, expected);
  if (!member) return tl::unexpected(member.error());
  const json& list = **member;
  if (or_one && list.is_string()) return ParsedTexts{{list.get<std::string>()}, true};
  if (!list.is_array()) {
    return tl::unexpected(
        invalid_param(field, "`" + field + "` must be " + expected + ", not " + describe(list)));
  }
  if (list.empty()) return tl::unexpected(empty_input(field, "is an empty array"));
  ParsedTexts parsed;
  parsed.texts.reserve(list.size());
  for (const json& entry : list) {
    auto text = text_of(entry, entry_name(field, parsed.texts.size()));
    if (!text) return tl::unexpected(std::move(text.error()));
    parsed.texts.push_back(std::move(*text));
  }
  return parsed;
}

}  // namespace espalier::server
