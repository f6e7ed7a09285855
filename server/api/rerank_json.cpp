#include "server/api/rerank_json.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/api/json_request.h"

namespace espalier::server {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 8> kMembers{
    "query", "documents", "text", "model", "top_n", "return_documents", "instruction", "truncate"};

Result<std::string> parse_document(const json& entry, size_t index) {
  if (entry.is_string()) return entry.get<std::string>();
  auto param = "documents[" + std::to_string(index) + "]";
  if (entry.is_object()) {
    const auto text = entry.find("text");
    if (text != entry.end() && text->is_string()) return text->get<std::string>();
    param += ".text";
    auto message =
        "`" + param + "` must be a string" +
        (text == entry.end() ? std::string(", it is missing") : ", not " + describe(*text));
    return tl::unexpected(invalid_param(std::move(param), std::move(message)));
  }
  auto message =
      "`" + param + "` must be a string or an object with a `text`, not " + describe(entry);
  return tl::unexpected(invalid_param(std::move(param), std::move(message)));
}

Result<std::vector<std::string>> parse_documents(const json& object) {
  const auto found = object.find("documents");
  if (found == object.end()) {
    return tl::unexpected(invalid_param(
        "documents", "`documents` is missing; it must be an array of strings or of {\"text\": …}"));
  }
  if (!found->is_array()) {
    return tl::unexpected(invalid_param(
        "documents",
        "`documents` must be an array of strings or of {\"text\": …}, not " + describe(*found)));
  }
  if (found->empty())
    return tl::unexpected(invalid_param("documents", "`documents` is an empty array"));
  if (found->size() > kRerankDocumentsMax) {
    return tl::unexpected(invalid_param(
        "documents", "`documents` has " + std::to_string(found->size()) + " entries; at most " +
                         std::to_string(kRerankDocumentsMax) + " are allowed in one request"));
  }
  std::vector<std::string> documents;
  documents.reserve(found->size());
  for (const json& entry : *found) {
    auto document = parse_document(entry, documents.size());
    if (!document) return tl::unexpected(std::move(document.error()));
    documents.push_back(std::move(*document));
  }
  return documents;
}

Result<std::string> parse_query(const json& object) {
  auto query = optional_string(object, "query");
  if (!query) return tl::unexpected(std::move(query.error()));
  if (!*query)
    return tl::unexpected(invalid_param("query", "`query` is missing; it must be a string"));
  return std::move(**query);
}

}  // namespace

Result<RerankRequest> parse_rerank_request(std::string_view body) {
  auto object = parse_json_object(body, kMembers);
  if (!object) return tl::unexpected(std::move(object.error()));
  auto query = parse_query(*object);
  if (!query) return tl::unexpected(std::move(query.error()));
  auto model = optional_string(*object, "model");
  if (!model) return tl::unexpected(std::move(model.error()));
  auto instruction = optional_string(*object, "instruction");
  if (!instruction) return tl::unexpected(std::move(instruction.error()));
  auto top_n = optional_whole_number(*object, "top_n", 0);
  if (!top_n) return tl::unexpected(std::move(top_n.error()));
  auto return_documents = optional_bool(*object, "return_documents");
  if (!return_documents) return tl::unexpected(std::move(return_documents.error()));
  auto truncate = optional_bool(*object, "truncate");
  if (!truncate) return tl::unexpected(std::move(truncate.error()));
  auto documents = parse_documents(*object);
  if (!documents) return tl::unexpected(std::move(documents.error()));

  RerankRequest request;
  request.query = std::move(*query);
  request.documents = std::move(*documents);
  request.model = model->value_or("");
  request.instruction = std::move(*instruction);
  if (*top_n && **top_n > 0) request.top_n = static_cast<size_t>(**top_n);
  request.return_documents = return_documents->value_or(false);
  request.truncate = truncate->value_or(true);
  return request;
}

Result<std::string> render_rerank_answer(const RerankAnswer& answer, const RerankRequest& request,
                                         std::string_view id, std::string_view model) {
  std::string out = R"({"id":)";
  append_json_string(id, out);
  out += R"(,"object":"list","model":)";
  append_json_string(model, out);
  out += R"(,"results":[)";
  bool first = true;
  for (const auto& [index, score] : answer.results) {
    if (!std::exchange(first, false)) out += ',';
    out += R"({"index":)" + std::to_string(index) + R"(,"relevance_score":)";
    if (!append_json_float(score, out)) {
      ApiError error;
      error.message = "the model gave a score that is not a finite number for document " +
                      std::to_string(index);
      return tl::unexpected(std::move(error));
    }
    if (request.return_documents) {
      out += R"(,"document":{"text":)";
      append_json_string(request.documents[index], out);
      out += '}';
    }
    out += '}';
  }
  const auto tokens = std::to_string(answer.prompt_tokens);
  out += R"(],"usage":{"prompt_tokens":)" + tokens + R"(,"total_tokens":)" + tokens +
         R"(},"meta":{"api_version":{"version":"2"},"billed_units":{"search_units":1},)" +
         R"("tokens":{"input_tokens":)" + tokens + "}}}";
  return out;
}

}  // namespace espalier::server
