#include "server/api/tei_routes.h"

#include <nlohmann/json.hpp>
#include <string>

#include "server/api/inference_call.h"
#include "server/api/route_paths.h"
#include "server/api/tei_json.h"
#include "server/api/tei_tokenize_json.h"

namespace espalier::server {
namespace {

Result<std::string> post_embed(InferenceCall& call) {
  const auto request = parse_tei_embed(call.http.body);
  if (!request) return tl::unexpected(request.error());
  const auto answer = call.service.embed(*request, call.caller, call.report);
  if (!answer) return tl::unexpected(answer.error());
  return render_tei_embeddings(*answer);
}

Result<std::string> post_embed_all(InferenceCall& call) {
  const auto request = parse_tei_embed(call.http.body, TeiVectors::kTokens);
  if (!request) return tl::unexpected(request.error());
  const auto answer = call.service.embed_tokens(*request, call.caller, call.report);
  if (!answer) return tl::unexpected(answer.error());
  return render_token_embeddings(*answer);
}

Result<std::string> post_similarity(InferenceCall& call) {
  const auto request = parse_similarity(call.http.body);
  if (!request) return tl::unexpected(request.error());
  const auto answer = call.service.embed(*request, call.caller, call.report);
  if (!answer) return tl::unexpected(answer.error());
  return render_similarities(*answer);
}

Result<std::string> post_tokenize(InferenceCall& call) {
  const auto request = parse_tokenize(call.http.body);
  if (!request) return tl::unexpected(request.error());
  const auto tokens = call.service.tokenize(*request, call.caller, call.report);
  if (!tokens) return tl::unexpected(tokens.error());
  return render_tokens(*tokens, *call.service.model().tokenizer);
}

Result<std::string> post_decode(InferenceCall& call) {
  const auto request = parse_decode(call.http.body);
  if (!request) return tl::unexpected(request.error());
  const auto texts = call.service.decode(*request, call.caller, call.report);
  if (!texts) return tl::unexpected(texts.error());
  return render_texts(*texts);
}

/// What the server is and takes, under text-embeddings-inference's names.
std::string info_json(const ApiContext& context) {
  const ServedModel& model = context.service->model();
  nlohmann::ordered_json model_type = {{"embedding", {{"pooling", model.pooling}}}};
  if (model.rerank_prompt) model_type["reranker"] = {{"id2label", {{"0", "LABEL_0"}}}};
  const nlohmann::ordered_json info = {
      {"model_id", model.name},
      {"model_sha", nullptr},
      {"model_dtype", model.dtype},
      {"model_type", model_type},
      {"max_concurrent_requests", context.limits.concurrent_requests},
      {"max_input_length", model.max_input_tokens},
      {"max_batch_tokens", context.limits.batch_tokens},
      {"max_batch_requests", nullptr},
      {"max_client_batch_size", context.service->limits().inputs},
      {"auto_truncate", true},
      {"tokenization_workers", context.limits.tokenizer_threads},
      {"version", context.version},
      {"sha", nullptr},
      {"docker_label", nullptr},
  };
  return info.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::vector<Route> tei_routes(const ApiContext& context) {
  return {
      inference_route(context, kTeiEmbedPath, ErrorForm::kTei, post_embed),
      inference_route(context, kTeiEmbedAllPath, ErrorForm::kTei, post_embed_all),
      inference_route(context, kTeiSimilarityPath, ErrorForm::kTei, post_similarity),
      inference_route(context, kTeiTokenizePath, ErrorForm::kTei, post_tokenize),
      inference_route(context, kTeiDecodePath, ErrorForm::kTei, post_decode),
      guarded_get(context, kTeiInfoPath,
                  [info = info_json(context)](const HttpRequest&) { return json_response(info); }),
  };
}

}  // namespace espalier::server
