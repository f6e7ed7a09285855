// Fields of the peers' clients that would change an answer and are not served: they are refused by
// name. Fields that nobody here knows are ignored, because clients send many that change nothing.
//
// Thread contract: functions without state.
#pragma once

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "server/api_error.h"

namespace espalier::server {

/// Members of a body that refuse_unserved() looks at.
inline constexpr std::array<std::string_view, 11> kUnservedMembers{
    "messages", "prompt",        "truncation_strategy", "chat_template", "chat_template_kwargs",
    "images",   "late_chunking", "return_multivector",  "embed_dtype",   "endianness",
    "padding"};

/// An error that names the first of them that asks for something else than what is done anyway.
std::optional<ApiError> refuse_unserved(const nlohmann::json& object);

}  // namespace espalier::server
