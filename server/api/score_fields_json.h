// The fields that the rerank and the score routes have in common.
//
// Thread contract: functions without state.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "server/service/inference_service.h"

namespace espalier::server {

inline constexpr std::array<std::string_view, 10> kScoreMembers{"instruction",
                                                                "max_tokens_per_doc",
                                                                "max_tokens_per_query",
                                                                "truncate",
                                                                "truncation_side",
                                                                "truncation_direction",
                                                                "truncate_prompt_tokens",
                                                                "return_trie",
                                                                "prompt_name",
                                                                "input_type"};

/// `members` and those, for parse_json_object().
template <size_t kCount>
constexpr auto with_score_fields(const std::array<std::string_view, kCount>& members) {
  std::array<std::string_view, kCount + kScoreMembers.size()> all{};
  std::ranges::copy(members, all.begin());
  std::ranges::copy(kScoreMembers, all.begin() + kCount);
  return all;
}

/// Reads them, and `model`, into `request`.
std::optional<ApiError> parse_score_fields(const nlohmann::json& object, ScoreRequest& request);

/// Appends P(yes) of `logit`, or with `raw` the logit itself.
void append_score(double logit, bool raw, std::string& out);

}  // namespace espalier::server
