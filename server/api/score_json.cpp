#include "server/api/score_json.h"

#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/api/json_request.h"
#include "server/api/score_fields_json.h"
#include "server/api/text_inputs_json.h"
#include "server/api/trie_json.h"
#include "server/api/unserved_fields.h"

namespace espalier::server {
namespace {

constexpr auto kMembers = joined_members(
    std::array<std::string_view, 6>{"text_1", "text_2", "queries", "documents", "text", "model"},
    kScoreMembers, kUnservedMembers);

}  // namespace

Result<ScoreRequest> parse_score_body(std::string_view body) {
  const auto object = parse_json_object(body, kMembers);
  if (!object) return tl::unexpected(object.error());
  ScoreRequest request;
  if (auto error = parse_score_fields(*object, request)) return tl::unexpected(std::move(*error));
  const bool by_role = has_value(*object, "queries") || has_value(*object, "documents");
  if (by_role && (has_value(*object, "text_1") || has_value(*object, "text_2"))) {
    return tl::unexpected(invalid_param(
        "text_1", "send `text_1` and `text_2`, or `queries` and `documents`, not both"));
  }
  request.query_field = by_role ? "queries" : "text_1";
  request.document_field = by_role ? "documents" : "text_2";
  auto queries = parse_texts(*object, request.query_field, true);
  if (!queries) return tl::unexpected(std::move(queries.error()));
  auto documents = parse_texts(*object, request.document_field, true);
  if (!documents) return tl::unexpected(std::move(documents.error()));
  if (queries->texts.size() != 1 && queries->texts.size() != documents->texts.size()) {
    return tl::unexpected(invalid_param(
        request.query_field, "`" + request.query_field + "` must be one text, or as many as `" +
                                 request.document_field + "` has (" +
                                 std::to_string(documents->texts.size()) + "), not " +
                                 std::to_string(queries->texts.size())));
  }
  request.queries = std::move(queries->texts);
  request.documents = std::move(documents->texts);
  request.single_document = documents->single;
  return request;
}

std::string render_scores(const ScoreAnswer& answer, bool raw, std::string_view id,
                          std::string_view model, size_t prompt_tokens) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto created = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  std::string out = R"({"id":)";
  append_json_string("score-" + std::string(id), out);
  out += R"(,"object":"list","created":)" + std::to_string(created) + R"(,"model":)";
  append_json_string(model, out);
  out += R"(,"data":[)";
  for (size_t i = 0; i < answer.logits.size(); ++i) {
    if (i > 0) out += ',';
    out += R"({"index":)" + std::to_string(i) + R"(,"object":"score","score":)";
    append_score(answer.logits[i], answer.scale, raw, out);
    out += '}';
  }
  const auto tokens = std::to_string(prompt_tokens);
  out += R"(],"usage":{"prompt_tokens":)" + tokens + R"(,"total_tokens":)" + tokens +
         R"(,"completion_tokens":0})";
  append_trie_member(answer.trie, out);
  out += '}';
  return out;
}

}  // namespace espalier::server
