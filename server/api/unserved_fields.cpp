#include "server/api/unserved_fields.h"

#include <nlohmann/json.hpp>
#include <string>

#include "server/api/json_request.h"

namespace espalier::server {
namespace {

using nlohmann::json;

struct UnservedField {
  std::string_view name;
  std::string_view served;  // its value, as JSON, that asks for what is done anyway; "": none
  std::string_view also;    // another one, or ""
  const char* instead;
};

constexpr std::array<UnservedField, kUnservedMembers.size()> kFields{{
    {"messages", "", "", "send the text as `input`, and what to do with it as `instruction`"},
    {"prompt", "", "", "send `instruction`, or `prompt_name` for one of the model's prompts"},
    {"truncation_strategy", R"("end")", "", "send `truncate`: \"NONE\", \"START\" or \"END\""},
    {"chat_template", "", "", "rerank has the model's own template, its task is `instruction`"},
    {"chat_template_kwargs", "{}", "", "what a rerank is about is said by `instruction`"},
    {"images", "[]", "", "this model embeds text"},
    {"late_chunking", "false", "", "each input is embedded by itself"},
    {"return_multivector", "false", "", "POST /embed_all answers with the vector of each token"},
    {"embed_dtype", R"("float32")", "", "base64 is of f32; `encoding_format` has other types"},
    {"endianness", R"("little")", R"("native")", "base64 is little-endian"},
    {"padding", R"("do_not_pad")", "", "inputs are never padded"},
}};

bool is(const json& value, std::string_view text) {
  return !text.empty() && value == json::parse(text);
}

}  // namespace

std::optional<ApiError> refuse_unserved(const json& object) {
  for (const auto& field : kFields) {
    const auto found = object.find(field.name);
    if (found == object.end() || found->is_null()) continue;
    if (is(*found, field.served) || is(*found, field.also)) continue;
    const std::string name(field.name);
    return invalid_param(name, "`" + name + "` is not served here; " + field.instead);
  }
  return std::nullopt;
}

}  // namespace espalier::server
