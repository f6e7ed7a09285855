// The fields that say how texts become token ids, under the names that the peers' clients use; the
// same on all routes.
//
// Thread contract: functions without state.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "server/api_error.h"
#include "server/service/input_options.h"

namespace espalier::server {

/// Members of a body that parse_input_options() reads.
inline constexpr std::array<std::string_view, 9> kInputOptionMembers{
    "prompt_name",       "instruction",          "input_type",      "task",
    "truncate",          "truncation_direction", "truncation_side", "truncate_prompt_tokens",
    "add_special_tokens"};

/// `members` and those, for parse_json_object().
template <size_t kCount>
constexpr auto with_input_options(const std::array<std::string_view, kCount>& members) {
  std::array<std::string_view, kCount + kInputOptionMembers.size()> all{};
  std::ranges::copy(members, all.begin());
  std::ranges::copy(kInputOptionMembers, all.begin() + kCount);
  return all;
}

Result<InputOptions> parse_input_options(const nlohmann::json& object);

/// `truncate` (true, false, "NONE", "START", "END"), `truncation_direction` and `truncation_side`.
Result<Truncation> parse_truncation(const nlohmann::json& object);

/// `truncate_prompt_tokens`: nullopt for -1 and if it is absent.
Result<std::optional<size_t>> parse_truncate_prompt_tokens(const nlohmann::json& object);

}  // namespace espalier::server
