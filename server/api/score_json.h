// vLLM's /score: pairs of texts, each with its score.
#pragma once

#include <string>
#include <string_view>

#include "server/service/inference_service.h"

namespace espalier::server {

/// `text_1` and `text_2`, or `queries` and `documents`: one against many, or pairs.
Result<ScoreRequest> parse_score_body(std::string_view body);

/// {"id","object":"list","created","model","data":[{"index","object":"score","score"}],"usage"}, in
/// the order of the pairs; with `raw`, logits.
std::string render_scores(const ScoreAnswer& answer, bool raw, std::string_view id,
                          std::string_view model, size_t prompt_tokens);

}  // namespace espalier::server
