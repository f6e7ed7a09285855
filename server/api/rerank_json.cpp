#include "server/api/rerank_json.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "server/api/input_options_json.h"
#include "server/api/json_request.h"
#include "server/api/score_fields_json.h"
#include "server/api/text_inputs_json.h"
#include "server/api/trie_json.h"
#include "server/api/unserved_fields.h"

namespace espalier::server {
namespace {

using nlohmann::json;

constexpr auto kMembers = joined_members(
    std::array<std::string_view, 10>{"query", "documents", "texts", "text", "top_n", "top_k",
                                     "return_documents", "return_text", "rank_fields", "model"},
    kScoreMembers, kUnservedMembers);

/// Each name is looked for in every document, and each document may be repeated for every name.
constexpr size_t kRankFieldsMax = 32;

/// Cohere's `rank_fields`: which members of documents that are objects make their text. Distinct.
Result<std::vector<std::string>> parse_rank_fields(const json& object) {
  std::vector<std::string> fields;
  const auto found = object.find("rank_fields");
  if (found == object.end() || found->is_null()) return fields;
  const auto wrong = [](const json& value) {
    return invalid_param("rank_fields", "`rank_fields` must be an array of names, not " +
                                            (value.is_array() ? "an empty one" : describe(value)));
  };
  if (!found->is_array() || found->empty()) return tl::unexpected(wrong(*found));
  for (const json& entry : *found) {
    if (!entry.is_string()) return tl::unexpected(wrong(entry));
    const auto& name = entry.get_ref<const std::string&>();
    if (std::ranges::find(fields, name) != fields.end()) continue;
    if (fields.size() == kRankFieldsMax) {
      return tl::unexpected(invalid_param(
          "rank_fields",
          "`rank_fields` may have at most " + std::to_string(kRankFieldsMax) + " different names"));
    }
    fields.push_back(name);
  }
  return fields;
}

/// The named members of a document, one a line, in the order in which they are named.
std::string joined_fields(const json& document, const std::vector<std::string>& fields) {
  std::string text;
  for (const std::string& field : fields) {
    const auto value = document.find(field);
    if (value == document.end() || value->is_null()) continue;
    if (!text.empty()) text += '\n';
    text += value->is_string() ? value->get<std::string>()
                               : value->dump(-1, ' ', false, json::error_handler_t::replace);
  }
  return text;
}

/// Puts what `fields` name into `text` of each document of `object` that is an object.
void apply_rank_fields(const std::vector<std::string>& fields, json& object) {
  const auto documents = object.find("documents");
  if (documents == object.end() || !documents->is_array()) return;
  for (json& document : *documents)
    if (document.is_object()) document["text"] = joined_fields(document, fields);
}

/// The body with the members that `rank_fields` names, if it does.
Result<json> parse_object(std::string_view body) {
  auto object = parse_json_object(body, kMembers);
  if (!object) return object;
  const auto fields = parse_rank_fields(*object);
  if (!fields) return tl::unexpected(fields.error());
  if (fields->empty()) return object;
  std::vector<std::string_view> members(kMembers.begin(), kMembers.end());
  members.insert(members.end(), fields->begin(), fields->end());
  object = json();  // not both at once
  object = parse_json_object(body, members);
  if (object) apply_rank_fields(*fields, *object);
  return object;
}

Result<bool> parse_flag(const json& object, const char* field) {
  const auto flag = optional_bool(object, field);
  if (!flag) return tl::unexpected(flag.error());
  return flag->value_or(false);
}

}  // namespace

Result<RerankBody> parse_rerank_body(std::string_view body, bool& tei) {
  auto object = parse_object(body);
  if (!object) return tl::unexpected(std::move(object.error()));
  RerankBody parsed;
  tei = has_value(*object, "texts") && !has_value(*object, "documents");
  parsed.tei = tei;
  if (has_value(*object, "texts") && !tei) {
    return tl::unexpected(
        invalid_param("texts", "`texts` and `documents` are the same; send one of them"));
  }
  auto query = parse_text(*object, "query");
  if (!query) return tl::unexpected(std::move(query.error()));
  // Voyage calls it top_k.
  const auto top_n = read_synonyms(
      *object, {"top_n", "top_k"},
      [](const json& from, const char* field) { return optional_whole_number(from, field, 0); });
  if (!top_n) return tl::unexpected(top_n.error());
  const auto return_documents = parse_flag(*object, "return_documents");
  if (!return_documents) return tl::unexpected(return_documents.error());
  const auto return_text = parse_flag(*object, "return_text");
  if (!return_text) return tl::unexpected(return_text.error());
  if (auto error = parse_score_fields(*object, parsed.request))
    return tl::unexpected(std::move(*error));
  parsed.request.document_field = tei ? "texts" : "documents";
  auto documents = parse_texts(*object, parsed.request.document_field);
  if (!documents) return tl::unexpected(std::move(documents.error()));

  parsed.request.queries.push_back(std::move(*query));
  parsed.request.documents = std::move(documents->texts);
  if (*top_n && **top_n > 0) parsed.top_n = static_cast<size_t>(**top_n);
  parsed.return_documents = *return_documents || *return_text;
  parsed.request.returns_documents = parsed.return_documents;
  return parsed;
}

std::string render_rerank(const ScoreAnswer& answer, const RerankBody& body, std::string_view id,
                          std::string_view model, size_t prompt_tokens) {
  std::string out = R"({"id":)";
  append_json_string("rerank-" + std::string(id), out);
  out += R"(,"object":"list","model":)";
  append_json_string(model, out);
  out += R"(,"results":[)";
  bool first = true;
  for (const auto& [index, logit] : best_first(answer.logits, body.top_n)) {
    if (!std::exchange(first, false)) out += ',';
    out += R"({"index":)" + std::to_string(index) + R"(,"relevance_score":)";
    append_score(logit, answer.scale, body.request.raw_scores, out);
    if (body.return_documents) {
      out += R"(,"document":{"text":)";
      append_json_string(body.request.documents[index], out);
      out += '}';
    }
    out += '}';
  }
  const auto tokens = std::to_string(prompt_tokens);
  out += R"(],"usage":{"prompt_tokens":)" + tokens + R"(,"total_tokens":)" + tokens +
         R"(},"meta":{"api_version":{"version":"2"},"billed_units":{"search_units":1},)" +
         R"("tokens":{"input_tokens":)" + tokens + "}}";
  append_trie_member(answer.trie, out);
  out += '}';
  return out;
}

std::string render_tei_rerank(const ScoreAnswer& answer, const RerankBody& body) {
  std::string out = "[";
  for (const auto& [index, logit] : best_first(answer.logits, body.top_n)) {
    if (out.size() > 1) out += ',';
    out += R"({"index":)" + std::to_string(index);
    if (body.return_documents) {
      out += R"(,"text":)";
      append_json_string(body.request.documents[index], out);
    }
    out += R"(,"score":)";
    append_score(logit, answer.scale, body.request.raw_scores, out);
    out += '}';
  }
  out += ']';
  return out;
}

}  // namespace espalier::server
