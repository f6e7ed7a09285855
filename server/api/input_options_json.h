// The fields that say how texts become token ids, under the names that the peers' clients use; the
// same on all routes.
//
// Thread contract: functions without state.
#pragma once

#include <array>
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "server/api/json_request.h"
#include "server/api_error.h"
#include "server/service/input_options.h"

namespace espalier::server {

/// Members of a body that parse_truncation() and parse_truncate_prompt_tokens() read.
inline constexpr std::array<std::string_view, 5> kTruncationMembers{
    "truncate", "truncation", "truncation_direction", "truncation_side", "truncate_prompt_tokens"};
/// … that parse_input_options() reads.
inline constexpr auto kInputOptionMembers =
    joined_members(std::array<std::string_view, 5>{"prompt_name", "instruction", "input_type",
                                                   "task", "add_special_tokens"},
                   kTruncationMembers);

Result<InputOptions> parse_input_options(const nlohmann::json& object);

/// `truncate` (true, false, "NONE", "START", "END"), or Voyage's `truncation` (true, false);
/// `truncation_direction` and `truncation_side`.
Result<Truncation> parse_truncation(const nlohmann::json& object);

/// `truncate_prompt_tokens`: nullopt for -1 and if it is absent.
Result<std::optional<size_t>> parse_truncate_prompt_tokens(const nlohmann::json& object);

}  // namespace espalier::server
