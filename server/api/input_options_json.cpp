#include "server/api/input_options_json.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "server/api/json_request.h"

namespace espalier::server {
namespace {

using nlohmann::json;

struct TypeName {
  std::string_view name;
  InputType type;
};

/// Cohere's, Jina's, Voyage's and NVIDIA's words for it.
constexpr std::array kTypeNames{
    TypeName{"search_query", InputType::kQuery},
    TypeName{"query", InputType::kQuery},
    TypeName{"retrieval.query", InputType::kQuery},
    TypeName{"search_document", InputType::kDocument},
    TypeName{"document", InputType::kDocument},
    TypeName{"passage", InputType::kDocument},
    TypeName{"retrieval.passage", InputType::kDocument},
    TypeName{"classification", InputType::kClassification},
    TypeName{"clustering", InputType::kClustering},
    TypeName{"separation", InputType::kClustering},
};

Result<std::optional<InputType>> parse_type(const json& object, const char* field) {
  auto name = optional_string(object, field);
  if (!name) return tl::unexpected(std::move(name.error()));
  if (!*name) return std::nullopt;
  for (const auto& [known, type] : kTypeNames)
    if (known == **name) return type;
  return tl::unexpected(
      invalid_param(field, "`" + std::string(field) +
                               "` must be \"search_query\" (or \"query\"), \"search_document\" (or "
                               "\"document\"), \"classification\" or \"clustering\""));
}

/// Whether `name`, the value of `field`, is `start` rather than `end`, in any case.
Result<bool> parse_side(const json& object, const char* field, std::string_view start,
                        std::string_view end) {
  auto name = optional_string(object, field);
  if (!name) return tl::unexpected(std::move(name.error()));
  std::string side = name->value_or(std::string(end));
  for (char& c : side)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  if (side == start) return true;
  if (side == end) return false;
  return tl::unexpected(invalid_param(field, "`" + std::string(field) + "` must be \"" +
                                                 std::string(start) + "\" or \"" +
                                                 std::string(end) + "\""));
}

/// Whether too long texts are cut, and at which end, of `truncate` or `truncation` alone.
Result<Truncation> parse_truncate(const json& object) {
  const auto truncation = optional_bool(object, "truncation");
  if (!truncation) return tl::unexpected(truncation.error());
  const auto found = object.find("truncate");
  if (found == object.end() || found->is_null())
    return truncation->value_or(true) ? Truncation::kCutEnd : Truncation::kRefuse;
  if (*truncation) {
    return tl::unexpected(
        invalid_param("truncation", "`truncation` and `truncate` are the same; send one of them"));
  }
  if (found->is_boolean()) return found->get<bool>() ? Truncation::kCutEnd : Truncation::kRefuse;
  if (found->is_string()) {
    const auto& word = found->get_ref<const std::string&>();
    if (word == "NONE" || word == "none") return Truncation::kRefuse;
    if (word == "END" || word == "end") return Truncation::kCutEnd;
    if (word == "START" || word == "start") return Truncation::kCutStart;
  }
  return tl::unexpected(invalid_param(
      "truncate", "`truncate` must be true, false, \"NONE\", \"START\" or \"END\", not " +
                      (found->is_string() ? "another string" : describe(*found))));
}

}  // namespace

Result<Truncation> parse_truncation(const json& object) {
  auto truncation = parse_truncate(object);
  if (!truncation) return truncation;
  const auto left = parse_side(object, "truncation_direction", "left", "right");
  if (!left) return tl::unexpected(left.error());
  const auto left_side = parse_side(object, "truncation_side", "left", "right");
  if (!left_side) return tl::unexpected(left_side.error());
  if ((*left || *left_side) && *truncation == Truncation::kCutEnd) return Truncation::kCutStart;
  return truncation;
}

Result<std::optional<size_t>> parse_truncate_prompt_tokens(const json& object) {
  constexpr const char* kField = "truncate_prompt_tokens";
  const auto found = object.find(kField);
  if (found != object.end() && found->is_number() && found->get<double>() == -1) {
    return std::nullopt;
  }
  auto tokens = optional_whole_number(object, kField, 1);
  if (!tokens) {
    auto error = std::move(tokens.error());
    error.message += "; -1 stands for what the model takes";
    return tl::unexpected(std::move(error));
  }
  if (!*tokens) return std::nullopt;
  return static_cast<size_t>(**tokens);
}

Result<InputOptions> parse_input_options(const json& object) {
  InputOptions options;
  auto prompt_name = optional_string(object, "prompt_name");
  if (!prompt_name) return tl::unexpected(std::move(prompt_name.error()));
  auto instruction = optional_string(object, "instruction");
  if (!instruction) return tl::unexpected(std::move(instruction.error()));
  auto input_type = parse_type(object, "input_type");
  if (!input_type) return tl::unexpected(std::move(input_type.error()));
  auto task = parse_type(object, "task");
  if (!task) return tl::unexpected(std::move(task.error()));
  if (*task && *input_type && *task != *input_type) {
    return tl::unexpected(
        invalid_param("task", "`task` and `input_type` say different things; send one of them"));
  }
  auto truncation = parse_truncation(object);
  if (!truncation) return tl::unexpected(std::move(truncation.error()));
  auto tokens_max = parse_truncate_prompt_tokens(object);
  if (!tokens_max) return tl::unexpected(std::move(tokens_max.error()));
  auto add_special_tokens = optional_bool(object, "add_special_tokens");
  if (!add_special_tokens) return tl::unexpected(std::move(add_special_tokens.error()));

  options.prompt_name = std::move(*prompt_name);
  options.instruction = std::move(*instruction);
  options.input_type = *input_type ? *input_type : *task;
  options.truncation = *truncation;
  options.tokens_max = *tokens_max;
  options.add_special_tokens = add_special_tokens->value_or(true);
  return options;
}

}  // namespace espalier::server
