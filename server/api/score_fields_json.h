// The fields that the rerank and the score routes have in common.
//
// Thread contract: functions without state.
#pragma once

#include <array>
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "server/api/input_options_json.h"
#include "server/api/json_request.h"
#include "server/service/inference_service.h"

namespace espalier::server {

inline constexpr auto kScoreMembers = joined_members(
    std::array<std::string_view, 10>{"instruction", "max_tokens_per_doc", "max_tokens_per_query",
                                     "return_trie", "raw_scores", "use_activation", "activation",
                                     "softmax", "prompt_name", "input_type"},
    kTruncationMembers);

/// Reads them, and `model`, into `request`; refuses those of refuse_unserved(). Which scores are
/// wanted: `raw_scores`, or the contrary of what vLLM calls `use_activation`.
std::optional<ApiError> parse_score_fields(const nlohmann::json& object, ScoreRequest& request);

/// Appends the relevance of `score`, or with `raw` the score itself.
void append_score(double score, ScoreScale scale, bool raw, std::string& out);

}  // namespace espalier::server
