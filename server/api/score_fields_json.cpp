#include "server/api/score_fields_json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "server/api/input_options_json.h"
#include "server/api/json_request.h"
#include "server/api/unserved_fields.h"

namespace espalier::server {
namespace {

using nlohmann::json;

std::optional<ApiError> parse_tokens_max(const json& object, const char* field,
                                         std::optional<size_t>& to) {
  const auto tokens = optional_whole_number(object, field, 1);
  if (!tokens) return tokens.error();
  if (*tokens) to = static_cast<size_t>(**tokens);
  return std::nullopt;
}

/// Which field of `object` asked for Truncation::kCutStart.
const char* field_that_cuts_starts(const json& object) {
  const auto says_left = [&](const char* field) {
    json one = json::object();
    if (object.contains(field)) one[field] = object[field];
    const auto truncation = parse_truncation(one);
    return truncation && *truncation == Truncation::kCutStart;
  };
  if (says_left("truncate")) return "truncate";
  return says_left("truncation_direction") ? "truncation_direction" : "truncation_side";
}

/// Whether logits are wanted rather than P(yes).
Result<bool> parse_raw_scores(const json& object) {
  const auto raw = optional_bool(object, "raw_scores");
  if (!raw) return tl::unexpected(raw.error());
  // Names that vLLM has given it over time.
  const auto activated =
      read_synonyms(object, {"use_activation", "activation", "softmax"}, optional_bool);
  if (!activated) return tl::unexpected(activated.error());
  if (*raw && *activated && **raw == **activated)
    return tl::unexpected(contradiction("raw_scores", "use_activation"));
  return raw->value_or(!activated->value_or(true));
}

}  // namespace

std::optional<ApiError> parse_score_fields(const json& object, ScoreRequest& request) {
  if (auto refused = refuse_unserved(object)) return refused;
  for (const char* const field : {"prompt_name", "input_type"}) {
    if (has_value(object, field)) {
      return invalid_param(field, "`" + std::string(field) +
                                      "` is for embeddings; what makes a document relevant is said "
                                      "by `instruction`");
    }
  }
  auto model = optional_string(object, "model");
  if (!model) return std::move(model.error());
  auto instruction = optional_string(object, "instruction");
  if (!instruction) return std::move(instruction.error());
  const auto truncation = parse_truncation(object);
  if (!truncation) return truncation.error();
  if (*truncation == Truncation::kCutStart) {
    return invalid_param(
        field_that_cuts_starts(object),
        "documents that are too long are cut at their end here, not at their start");
  }
  if (auto error = parse_tokens_max(object, "max_tokens_per_doc", request.document_tokens_max))
    return error;
  if (auto error = parse_tokens_max(object, "max_tokens_per_query", request.query_tokens_max))
    return error;
  const auto tokens_max = parse_truncate_prompt_tokens(object);
  if (!tokens_max) return tokens_max.error();
  const auto wants_trie = optional_bool(object, "return_trie");
  if (!wants_trie) return wants_trie.error();
  const auto raw_scores = parse_raw_scores(object);
  if (!raw_scores) return raw_scores.error();

  request.model = model->value_or("");
  request.instruction = std::move(*instruction);
  request.truncation = *truncation;
  request.tokens_max = *tokens_max;
  request.wants_trie = wants_trie->value_or(false);
  request.raw_scores = *raw_scores;
  return std::nullopt;
}

void append_score(double score, ScoreScale scale, bool raw, std::string& out) {
  // Finite: the service has seen to it.
  append_json_float(raw ? static_cast<float>(score) : relevance(score, scale), out);
}

}  // namespace espalier::server
